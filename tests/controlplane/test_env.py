"""Reading the environment: values as they are meant, and a sentence that names the variable otherwise."""

import ipaddress
import os
import stat
import subprocess
import sys

import pytest

from controlplane import env


@pytest.mark.parametrize(
    ("read", "raw", "value"),
    [
        (lambda: env.integer("X", 7), "", 7),
        (lambda: env.integer("X", 7), " 12 ", 12),
        (lambda: env.number("X", 1.0), "0.5", 0.5),
        (lambda: env.port("X", 8000), "0", 0),
        (lambda: env.port_if_any("X"), "0", 0),
        (lambda: env.port_if_any("X"), "9478", 9478),
        (lambda: env.port_if_any("X"), " ", None),
        (lambda: env.flag("X"), "Yes", True),
        (lambda: env.flag("X", True), "off", False),
        (lambda: env.choice("X", "INFO", among=["INFO", "DEBUG"]), "debug", "DEBUG"),
        (lambda: env.listing("X"), "a, b,,c", ["a", "b", "c"]),
        (
            lambda: env.hosts("X", []),
            "pd.example.org, .internal,[fd00::7],*",
            ["pd.example.org", ".internal", "[fd00::7]", "*"],
        ),
        (lambda: env.networks("X", []), "10.0.0.0/8", (ipaddress.ip_network("10.0.0.0/8"),)),
        (lambda: env.networks("X", ["::1/128"]), "", (ipaddress.ip_network("::1/128"),)),
        (lambda: env.networks("X", ["::1/128"]), "None", ()),
    ],
)
def test_a_value_is_read_as_it_is_meant(monkeypatch, read, raw, value):
    monkeypatch.setenv("X", raw)
    assert read() == value


@pytest.mark.parametrize(
    ("read", "raw"),
    [
        (lambda: env.integer("X", 7), "7.5"),
        (lambda: env.integer("X", 7), "-1"),
        (lambda: env.number("X", 1.0), "nan"),
        (lambda: env.number("X", 1.0), "fast"),
        (lambda: env.number("X", 1.0, at_most=60), "61"),
        (lambda: env.port("X", 8000), "65536"),
        (lambda: env.port_if_any("X"), "none"),
        (lambda: env.flag("X"), "perhaps"),
        (lambda: env.choice("X", "INFO", among=["INFO", "DEBUG"]), "loud"),
        (lambda: env.hosts("X", []), "https://pd.example.org"),
        (lambda: env.hosts("X", []), "localhost,pd.example.org:8000"),
        (lambda: env.hosts("X", []), "[fd00::7]:8000"),
        (lambda: env.hosts("X", []), "fd00::7"),
        (lambda: env.networks("X", []), "10.0.0.1/8"),
        (lambda: env.networks("X", []), "10.0.0.0/8,office"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_by_the_variables_name(monkeypatch, read, raw):
    monkeypatch.setenv("X", raw)
    with pytest.raises(env.BadSetting, match=r"^X: "):
        read()


def test_a_data_directory_is_made_private_and_one_that_cannot_be_made_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("X", "new/data")
    made = env.directory("X", tmp_path, relative_to=tmp_path)
    assert made == tmp_path / "new" / "data"
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    (tmp_path / "file").touch()
    monkeypatch.setenv("X", str(tmp_path / "file" / "data"))
    with pytest.raises(env.BadSetting, match=r"X: .*cannot be created"):
        env.directory("X", tmp_path, relative_to=tmp_path)


def test_processes_that_start_together_agree_on_one_private_secret_key(tmp_path):
    code = "import sys; from pathlib import Path; from controlplane import env;print(env.secret_key(Path(sys.argv[1])))"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SECRET_KEY")}
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env=clean, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    keys = {process.communicate()[0].strip() for process in started}
    assert len(keys) == 1
    assert len(keys.pop()) >= 50
    assert stat.S_IMODE((tmp_path / "secret_key").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["secret_key"]


def test_a_secret_key_file_that_is_missing_or_empty_is_refused(monkeypatch, tmp_path):
    monkeypatch.delenv("SECRET_KEY", raising=False)
    for file in (tmp_path / "missing", tmp_path / "empty"):
        monkeypatch.setenv("SECRET_KEY_FILE", str(file))
        (tmp_path / "empty").touch()
        with pytest.raises(env.BadSetting, match=r"^SECRET_KEY_FILE: "):
            env.secret_key(tmp_path)


def test_redis_urls_are_checked_and_spelt_for_celery(monkeypatch, tmp_path):
    monkeypatch.setenv("REDIS_URL", "http://cache")
    with pytest.raises(env.BadSetting, match=r"^REDIS_URL: "):
        env.redis_url("REDIS_URL", announced_in=tmp_path / "note")
    assert env.broker_url("unix:///run/redis.sock?db=0") == "redis+socket:///run/redis.sock?virtual_host=0"
    assert env.broker_url("rediss://cache:6379/1") == "rediss://cache:6379/1"


def test_a_note_of_an_embedded_redis_that_is_gone_is_not_believed(monkeypatch, tmp_path):
    monkeypatch.delenv("REDIS_URL", raising=False)
    (tmp_path / "note").write_text(f"unix://{tmp_path}/gone.sock?db=0\n")
    assert env.redis_url("REDIS_URL", announced_in=tmp_path / "note") == ""


@pytest.mark.parametrize(
    "given", ["", "https://alerts.example.org/hooks/x?y=1", "http://10.0.0.1:9000", "http://[fd00::1]:9000/"]
)
def test_a_url_of_our_own_settings_is_taken_as_it_is(monkeypatch, given):
    monkeypatch.setenv("HOOK", given)
    assert env.web_url("HOOK") == given


@pytest.mark.parametrize(
    "given",
    [
        "alerts.example.com",
        "ftp://x/",
        "http://",
        "http://h:99999/",
        "http://h:0/",
        "http://a b/",
        "http://ü/",
        "https://me:s3cret@h/",
    ],
)
def test_a_url_that_cannot_be_asked_is_refused_without_being_repeated(monkeypatch, given):
    monkeypatch.setenv("HOOK", given)
    with pytest.raises(env.BadSetting, match=r"^HOOK: must ") as refused:
        env.web_url("HOOK")
    assert "s3cret" not in str(refused.value) and given not in str(refused.value)
