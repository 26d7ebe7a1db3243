"""Three aliases, and which models and migrations go where."""

import pytest
from django.db import OperationalError, connections

from controlplane import databases
from controlplane.env import BadSetting
from tests.controlplane.commands.on_backend import inside


def options(url: str, tmp_path) -> dict:
    return databases.from_url(url, data_dir=tmp_path, synchronous="FULL")


def test_without_a_url_facts_and_rooms_are_two_files_and_readers_share_the_first(tmp_path):
    made = options("", tmp_path)
    names = {alias: made[alias]["NAME"] for alias in made}
    assert names["default"] == names["reader"] == str(tmp_path / "controlplane.sqlite3")
    assert names["traffic"] == str(tmp_path / "traffic.sqlite3")
    assert "synchronous=FULL" in made["default"]["OPTIONS"]["init_command"]


def test_on_postgresql_all_aliases_are_one_database_and_the_reader_only_reads(tmp_path):
    made = options("postgres://u:p@host/name?sslmode=require&options=-c%20search_path%3Dpd", tmp_path)
    assert {made[alias]["NAME"] for alias in made} == {"name"}
    assert {made[alias]["OPTIONS"]["sslmode"] for alias in made} == {"require"}
    for alias in made:
        assert "lock_timeout" in made[alias]["OPTIONS"]["options"]
        assert "search_path=pd" in made[alias]["OPTIONS"]["options"]
    assert "default_transaction_read_only=on" in made["reader"]["OPTIONS"]["options"]
    assert "read_only" not in made["default"]["OPTIONS"]["options"]


def test_a_page_may_think_for_long_within_its_snapshot_and_a_writer_may_not(postgresql_backend):
    with inside(postgresql_backend):
        said = {}
        for alias in connections:
            with connections[alias].cursor() as cursor:
                cursor.execute("SHOW idle_in_transaction_session_timeout")
                said[alias] = cursor.fetchone()[0]
    assert said == {"default": "2s", "reader": "30s", "traffic": "2s"}


@pytest.mark.parametrize("url", ["mysql://u:hunter2@h/n", "sqlite://:memory:", "hunter2", "postgres//u:hunter2@h"])
def test_a_url_that_cannot_serve_is_refused_without_repeating_its_password(tmp_path, url):
    with pytest.raises(BadSetting, match=r"^DATABASE_URL: ") as refusal:
        options(url, tmp_path)
    assert "hunter2" not in str(refusal.value)


def test_rooms_are_kept_apart_from_facts(database):
    for alias in ("default", "traffic"):
        tables = set(connections[alias].introspection.table_names())
        assert ("controlplane_signinlink" in tables) == (alias == "default")
        assert ("auth_user" in tables) == (alias == "default")
        assert ("controlplane_roombinding" in tables) == (alias == "traffic")


def test_the_reader_cannot_write(database):
    with connections["reader"].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM controlplane_signinlink")
        with pytest.raises(OperationalError):
            cursor.execute("DELETE FROM controlplane_signinlink")
