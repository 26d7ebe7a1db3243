"""A page of a dictionary's tensors, as the wire stored it: names and numbers exact, whatever is in them."""

import pytest

from controlplane.domain.errors import Refused
from controlplane.protocol.engine_info import read_publication
from controlplane.queries import tensors

HOSTILE = [
    'a":[1,2,3],"b',
    "back\\slash",
    'quote"',
    "<script>alert(1)</script>",
    "layers.0.ünïcode/名",
    "new\nline",
    "",
    "[0]",
]


def stored(weights: dict[str, list[int]]) -> bytes:
    import json

    body = {"rank": 0, "transfer_engine_info": {"session_id": "s", "weights_info_dict": weights}}
    return read_publication(json.dumps(body).encode()).compressed


def test_every_name_and_number_comes_back_as_it_was_sent():
    weights = {name: [2**64 - 1 - place, place, 2] for place, name in enumerate(HOSTILE)}
    rows = tensors.page(stored(weights)).rows
    assert {row.name: [row.address, row.elements, row.element_bytes] for row in rows} == weights
    assert [row.place for row in rows] == list(range(len(HOSTILE)))
    assert rows[3].bytes == 6


def test_pages_follow_one_another_across_the_pieces_it_is_unpacked_in(monkeypatch):
    weights = {f"model.layers.{n}.w": [n, 1, 2] for n in range(250)}
    # Smaller than one entry: whatever is cut in two is put together again.
    monkeypatch.setattr(tensors, "PIECE", 7)
    seen, start = [], 0
    while start is not None:
        page = tensors.page(stored(weights), start=start)
        seen += [row.name for row in page.rows]
        start = page.next
    assert seen == list(weights)


def test_names_are_found_by_a_part_of_them_escaped_ones_too():
    packed = stored({name: [0, 1, 1] for name in [*HOSTILE, "Model.W"]})
    assert [row.name for row in tensors.page(packed, text="model.w").rows] == ["Model.W"]
    assert [row.name for row in tensors.page(packed, text="new\nl").rows] == ["new\nline"]
    assert tensors.page(packed, text="nothing").rows == ()
    assert tensors.page(stored({})).rows == ()


def test_a_place_that_is_no_number_is_refused():
    assert tensors.read_place("") == 0 and tensors.read_place("100") == 100
    for wrong in ("-1", "x", "1" * 10, "¹"):
        with pytest.raises(Refused):
            tensors.read_place(wrong)


def test_what_is_stored_damaged_is_said_and_not_an_error():
    with pytest.raises(Refused, match=r"cannot be read .*; have its worker publish it again"):
        tensors.page(b"no zlib")
