"""The watched file adds and changes observed instances, and takes nothing away."""

import doctest
import json

import pytest
from django.conf import settings

from controlplane.commands import instances, observe_file
from controlplane.databases import FACTS
from controlplane.domain.errors import Refused
from controlplane.ledger.tail import head, latest
from controlplane.models import Instance
from controlplane.tasks import observing

WHO = {"actor": "anna", "reason": "a test"}


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    observing._last.clear()
    observing._unended.clear()
    return on_backend


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "observed"
    monkeypatch.setattr(settings, "PDCP_OBSERVE_FILE", str(path), raising=False)
    return path


def stored(name):
    return Instance.objects.using(FACTS).get(name=name)


def test_instances_of_a_json_list_are_added_and_changed(file):
    entry = {"name": "a", "observed_url": "http://10.0.0.1:8998", "observed_engine_info_url": "http://10.0.0.1:6789"}
    reader = {"name": "d", "role": "decode", "observed_url": "http://10.0.0.2:30000"}
    seed = {"name": "s", "observed_engine_info_url": "http://10.0.0.3:6789"}
    file.write_text(json.dumps([entry, reader, seed]))
    observing.read_observe_file()
    assert (stored("a").role, stored("a").observed_url) == ("prefill", "http://10.0.0.1:8998")
    assert (stored("d").role, stored("d").engine_url) == ("decode", "http://10.0.0.2:30000")
    assert (stored("s").role, stored("s").observed_engine_info_url) == ("seed", "http://10.0.0.3:6789")
    assert latest(1)[0].actor == "PDCP_OBSERVE_FILE"

    file.write_text(json.dumps([{**entry, "observed_url": "http://10.0.0.9:8998"}]))
    observing.read_observe_file()
    assert stored("a").observed_url == "http://10.0.0.9:8998"
    assert stored("d").intent == "enabled", "who is no longer in the file stays"


def test_what_an_operator_changed_since_is_not_undone_until_the_file_changes(file):
    file.write_text("a http://10.0.0.1:8998\n")
    observing.read_observe_file()
    instances.edit("a", observed_url="http://10.0.0.2:8998", **WHO)
    before = head().revision
    observing.read_observe_file()
    assert (stored("a").observed_url, head().revision) == ("http://10.0.0.2:8998", before)
    instances.retire("a", **WHO)
    file.write_text("a http://10.0.0.3:8998\n")
    observing.read_observe_file()
    assert stored("a").intent == "retired", "a list does not undo what an operator did"


def test_a_line_is_a_url_with_a_name_and_a_role_if_there_are_any():
    assert doctest.testmod(observe_file).failed == 0
    text = "# our fleet\nhttp://10.0.0.1:8998\n\na http://10.0.0.2:8998 # the second\nd http://10.0.0.3:30000 decode\n"
    found = [(entry.name, entry.role, entry.urls["observed_url"]) for entry in observe_file.read(text)]
    assert found == [
        ("10.0.0.1-8998", "prefill", "http://10.0.0.1:8998"),
        ("a", "prefill", "http://10.0.0.2:8998"),
        ("d", "decode", "http://10.0.0.3:30000"),
    ]


UNREADABLE = [
    ("[{]", "not JSON"),
    ("{}", "a list of objects"),
    ('[{"name": "a"}]', "lacks a name, or where it is observed"),
    ('[{"name": "a", "observed_url": 1}]', "'observed_url' is not text"),
    ('[{"name": "a", "observed_url": "http://10.0.0.1:8998", "own_port": "1"}]', "'own_port'"),
    ("a http://10.0.0.1:8998\na http://10.0.0.2:8998", "names a twice"),
    ("a b c d", "more than NAME URL ROLE"),
    ("nothing", "must start with http:// or https://"),
]


@pytest.mark.parametrize(("text", "said"), UNREADABLE)
def test_a_file_that_cannot_be_read_changes_nothing(file, text, said):
    with pytest.raises(Refused, match=said):
        observe_file.read(text)
    file.write_text(text)
    observing.read_observe_file()
    assert not Instance.objects.using(FACTS).exists()


def test_one_entry_that_is_refused_keeps_nobody_else_out():
    instances.add("d", role="decode", **WHO)
    done = observe_file.apply(
        observe_file.read("a http://169.254.169.254:8998\nb http://10.0.0.1:8998\nd http://10.0.0.2:8998 prefill")
    )
    assert [sentence.split(":")[0] for sentence in done.refused] == ["a", "d"]
    assert "it is a decode here, and a prefill in the watched file" in done.refused[1]
    assert stored("b").observed_url == "http://10.0.0.1:8998" and len(done.changed) == 1


def test_no_file_is_no_work(file, monkeypatch):
    observing.read_observe_file()
    monkeypatch.setattr(settings, "PDCP_OBSERVE_FILE", "")
    observing.read_observe_file()
    assert not Instance.objects.using(FACTS).exists()


def test_a_seed_has_no_ranks_to_be_observed():
    with pytest.raises(Refused, match="a seed has no ranks"):
        instances.add("s", role="seed", observed_url="http://10.0.0.1:8998", **WHO)
    instances.add("s", role="seed", observed_engine_info_url="HTTP://Node-1:6789/", **WHO)
    assert stored("s").observed_engine_info_url == "http://node-1:6789"
    with pytest.raises(Refused, match="a seed has no ranks"):
        instances.edit("s", observed_url="http://10.0.0.1:8998", **WHO)
    instances.edit("s", observed_engine_info_url=None, **WHO)
    assert stored("s").observed_engine_info_url == ""


@pytest.mark.parametrize(
    "url", ["ftp://node-1:8998", "http://anna:x@node-1:8998", "http://169.254.169.254", "http://a:22"]
)
def test_what_must_not_be_asked_is_not_observed(url):
    for field in ("observed_url", "observed_engine_info_url"):
        with pytest.raises(Refused):
            instances.add("a", **{field: url}, **WHO)


def test_a_line_that_is_still_being_written_counts_once_it_is_the_same_twice(file):
    file.write_text("a http://10.0.0.1:8998\nb http://10.0.0.2:89")
    observing.read_observe_file()
    assert not Instance.objects.using(FACTS).exists()
    file.write_text("a http://10.0.0.1:8998\nb http://10.0.0.2:8998")
    observing.read_observe_file()
    assert not Instance.objects.using(FACTS).exists()
    observing.read_observe_file()
    assert stored("b").observed_url == "http://10.0.0.2:8998" and stored("a").observed_url == "http://10.0.0.1:8998"


def test_a_file_that_is_too_large_changes_nothing(file, monkeypatch):
    monkeypatch.setattr(observe_file, "MAX_BYTES", 40)
    file.write_text("a http://10.0.0.1:8998\nb http://10.0.0.2:8998\n")
    observing.read_observe_file()
    assert not Instance.objects.using(FACTS).exists()
    with pytest.raises(Refused, match="larger than"):
        observe_file.read(file.read_text())
