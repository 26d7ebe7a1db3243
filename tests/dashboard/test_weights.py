"""The pages of weights: 15 of 16 ranks, conflicts with what to do, and the tensors of one session a page at a time."""

import json
import time

import pytest

from controlplane.databases import FACTS
from controlplane.models import EngineBody, EngineInfo, Instance
from controlplane.protocol.engine_info import read_publication
from tests.dashboard.conftest import queries

LIST_QUERIES = 11
INSTANCE_QUERIES = 12
SESSION_QUERIES = 14
MOST_BYTES = 200_000


def seed(name: str = "seed-a") -> int:
    return Instance.objects.using(FACTS).create(name=name, role="seed", created_at=time.time()).pk


def publish(instance: int, rank: int, *, weights: dict[str, list[int]] | None = None, epoch: int = 1, **more) -> None:
    weights = {"w": [4096, 8, 2]} if weights is None else weights
    session = more.pop("session", f"10.0.1.10:{17000 + rank}")
    body = {"rank": rank, "transfer_engine_info": {"session_id": session, "weights_info_dict": weights}}
    said = read_publication(json.dumps(body).encode())
    EngineBody.objects.using(FACTS).get_or_create(
        digest=said.digest, defaults={"compressed": said.compressed, "size_bytes": said.size_bytes}
    )
    given = {"state": "live", "at": time.time() - 60, **more}
    EngineInfo.objects.using(FACTS).create(
        instance_id=instance,
        rank=rank,
        epoch=epoch,
        session=said.session,
        digest=said.digest,
        tensors=said.tensors,
        total_bytes=said.total_bytes,
        **given,
    )


def test_an_instance_that_lacks_a_rank_says_which(viewer):
    pk = seed()
    for rank in (*range(11), *range(12, 16)):
        publish(pk, rank)
    for path in ("/weights/", "/weights/seed-a/"):
        assert "15 of at least 16 ranks, missing 11" in viewer.text(path)
    publish(pk, 11)
    assert "16 of at least 16 ranks" in viewer.text("/weights/seed-a/")


def test_whoever_pulled_its_weights_says_from_whom_the_nearest_first(viewer):
    had = {f"pd-weights/1/from/{hop}/{name}/0": [0, 0, 1] for hop, name in ((1, "replica-a"), (2, "seed-a"))}
    publish(seed(), 0)
    publish(seed("replica-b"), 0, weights={"pd-weights/1/content/5d": [0, 0, 1], **had, "w": [4096, 8, 2]})
    # What stands among the tensors is the name of a tensor.
    publish(seed("replica-c"), 0, weights={"w": [4096, 8, 2], **had})
    said = viewer.text("/weights/")
    assert said.count("replica-a ← seed-a") == 1
    assert "Had from replica-a , which had them from seed-a" in viewer.text("/weights/replica-b/")
    for name in ("seed-a", "replica-c"):
        assert "Had from" not in viewer.text(f"/weights/{name}/")


def test_a_conflict_is_said_with_both_sessions_and_what_to_do(viewer):
    pk = seed()
    publish(pk, 0)
    publish(pk, 0, epoch=2, state="conflict", session="10.0.9.9:1", old_style=True)
    for path in ("/weights/", "/weights/seed-a/", "/weights/seed-a/0/2/"):
        said = viewer.text(path)
        assert "10.0.9.9:1" in said and "10.0.1.10:17000" in said and "two pipeline stages" in said
        assert "Update the seed" in said
    assert "Kept, not served." in viewer.text("/weights/seed-a/0/2/")
    assert "Served." in viewer.text("/weights/seed-a/0/1/")


def test_sessions_that_ended_are_kept_apart_with_their_reason(viewer):
    pk = seed()
    publish(
        pk, 0, state="retired", ended_at=time.time() - 3, ended_reason="session 10.0.1.10:17000 refuses connections"
    )
    assert "refuses connections" not in viewer.text("/weights/seed-a/")
    assert "refuses connections" in viewer.text("/weights/seed-a/?show=ended")
    assert "Ended" in viewer.text("/weights/seed-a/0/1/")


def test_tensors_are_shown_exactly_a_page_at_a_time_and_found_by_name(viewer):
    weights = {f"model.layers.{n}.w": [2**47 + n, 4096 * 7168, 2] for n in range(150)}
    publish(seed(), 0, weights=weights)
    first = viewer.get("/weights/seed-a/0/1/")
    assert "model.layers.99.w" in first and "model.layers.100.w" not in first and "?after=100" in first
    assert str(2**47 + 99) in first
    rest = viewer.get("/weights/seed-a/0/1/?after=100")
    assert "model.layers.149.w" in rest and "model.layers.99.w" not in rest and "Next tensors" not in rest
    found = viewer.get("/weights/seed-a/0/1/?q=LAYERS.149")
    assert "model.layers.149.w" in found and "model.layers.1.w" not in found
    assert "Next tensors" not in viewer.get("/weights/seed-a/0/1/", parts="session")


def test_a_dictionary_that_is_forgotten_is_said_to_be(viewer):
    publish(seed(), 0)
    EngineBody.objects.using(FACTS).all().delete()
    assert "kept no more" in viewer.text("/weights/seed-a/0/1/")


def test_a_dictionary_that_is_damaged_where_it_is_stored_is_said_to_be(viewer):
    publish(seed(), 0)
    EngineBody.objects.using(FACTS).update(compressed=b"no zlib")
    said = viewer.get("/weights/seed-a/0/1/", status=409)
    assert "cannot be read" in said and "publish it again" in said


def test_what_workers_call_things_is_shown_and_not_run(viewer):
    publish(seed(), 0, weights={"<script>alert(1)</script>": [0, 0, 2]}, session="<img src=x onerror=alert(1)>")
    for path in ("/weights/seed-a/", "/weights/seed-a/0/1/"):
        page = viewer.get(path)
        assert "<img src=x" not in page and "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in viewer.get("/weights/seed-a/0/1/")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/weights/?only=nonsense", 400),
        ("/weights/nobody/", 404),
        ("/weights/seed-a/?show=x", 400),
        ("/weights/seed-a/?after=x", 400),
        ("/weights/seed-a/9/1/", 404),
        ("/weights/seed-a/x/1/", 404),
        ("/weights/seed-a/99999999999999999999/1/", 404),
        ("/weights/seed-a/0/1/?after=x", 400),
    ],
)
def test_a_question_that_makes_no_sense_is_a_page_and_no_failure(viewer, path, status):
    publish(seed(), 0)
    assert "Request" in viewer.text(path, status=status)


def test_nobody_publishing_teaches_how_to(viewer):
    assert "--remote-instance-weight-loader-start-seed-via-transfer-engine" in viewer.text("/weights/")
    seed()
    assert "nothing published" in viewer.text("/weights/") and "Nothing is published." in viewer.text(
        "/weights/seed-a/"
    )


def test_the_list_is_taken_away_as_csv(viewer):
    publish(seed("seed-a"), 1)
    lines = viewer.get("/weights.csv").splitlines()
    assert lines[0].startswith("instance,role,state,sessions,expected")
    assert lines[1].startswith("seed-a,seed,incomplete,1,2,False,0,0,1,1,16,")


def test_pages_ask_as_much_and_weigh_as_little_with_many_as_with_one(viewer):
    pk = seed()
    publish(pk, 0), publish(pk, 0, epoch=2, state="conflict", session="10.0.9.9:1")

    def cost(path: str) -> int:
        with queries() as asked:
            page = viewer.get(path)
        assert len(page.encode()) < MOST_BYTES
        return len(asked)

    paths = ("/weights/", "/weights/seed-a/", "/weights/seed-a/0/2/")
    before = [cost(path) for path in paths]
    for rank in range(1, 300):
        publish(pk, rank)
    for number in range(80):
        other = seed(f"other-{number}")
        publish(other, number % 7), publish(other, number % 7, epoch=2, state="conflict", session="10.0.9.9:1")
    assert [cost(path) for path in paths] == before == [LIST_QUERIES, INSTANCE_QUERIES, SESSION_QUERIES]
