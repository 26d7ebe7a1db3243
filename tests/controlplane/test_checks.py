"""System checks over settings that are valid one by one."""

import ipaddress

import pytest
from django.conf import settings
from django.test import override_settings

from controlplane import checks, env
from tests.support.processes import clean_env, manage


def test_a_web_port_open_to_others_needs_the_names_it_answers_to(monkeypatch):
    monkeypatch.setattr(settings, "PDCP_WEB_HOST", "0.0.0.0")
    monkeypatch.delenv("ALLOWED_HOSTS", raising=False)
    (error,) = checks.web_reachable_by_name(None)
    assert "ALLOWED_HOSTS" in error.msg
    monkeypatch.setenv("ALLOWED_HOSTS", "pd.example.org")
    assert checks.web_reachable_by_name(None) == []


def test_a_web_port_on_loopback_needs_nothing(monkeypatch):
    monkeypatch.delenv("ALLOWED_HOSTS", raising=False)
    for host in ("127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"):
        monkeypatch.setattr(settings, "PDCP_WEB_HOST", host)
        assert checks.web_reachable_by_name(None) == []
    for host in ("0.0.0.0", "::", "10.0.0.1", "pd.example.org"):
        monkeypatch.setattr(settings, "PDCP_WEB_HOST", host)
        assert len(checks.web_reachable_by_name(None)) == 1


def test_a_misspelt_variable_is_pointed_out_and_a_foreign_one_is_not(monkeypatch):
    monkeypatch.setattr(env, "known", {"PDCP_KV_PORT", "PDCP_WEB_PORT"})
    monkeypatch.setenv("PDCP_KV_PROT", "1")
    monkeypatch.setenv("PDCP_SOMETHING_OF_A_PLUGIN", "1")
    (warning,) = checks.no_misspelt_variable(None)
    assert "PDCP_KV_PROT" in warning.msg
    assert warning.hint == "Did you mean PDCP_KV_PORT?"


def ids(check) -> list[str]:
    found = check(None)
    assert all(message.msg and message.hint for message in found)
    return [message.id.removeprefix("controlplane.") for message in found]


ALL = tuple(ipaddress.ip_network(text) for text in ("0.0.0.0/0", "::/0"))
LAN = (ipaddress.ip_network("10.0.0.0/8"),)
NOT_SAFE = [
    (checks.open_metrics, {"PDCP_METRICS_HOST": "0.0.0.0"}, []),
    (checks.open_metrics, {"PDCP_METRICS_HOST": "0.0.0.0", "PDCP_METRICS_PORTS": (9478,)}, ["W019"]),
    (checks.open_metrics, {"PDCP_METRICS_HOST": "127.0.0.1", "PDCP_METRICS_PORTS": (9478,)}, []),
    (
        checks.open_metrics,
        {"PDCP_METRICS_HOST": "0.0.0.0", "PDCP_METRICS_PORTS": (9478,), "PDCP_METRICS_TOKEN": "only for scrapes"},
        [],
    ),
    (checks.unsigned_alarms, {}, []),
    (checks.unsigned_alarms, {"PDCP_ALARM_WEBHOOK_URL": "https://alerts.example.org/x"}, ["W018"]),
    (checks.unsigned_alarms, {"PDCP_ALARM_WEBHOOK_URL": "http://127.0.0.1:9000/x"}, []),
    (
        checks.unsigned_alarms,
        {"PDCP_ALARM_WEBHOOK_URL": "https://alerts.example.org/x", "PDCP_ALARM_WEBHOOK_SECRET": "between us"},
        [],
    ),
    # As it comes, on loopback, nothing is unsafe.
    (checks.open_doors, {}, []),
    (checks.open_doors, {"PDCP_BOOTSTRAP_HOST": "0.0.0.0"}, ["W010", "W011"]),
    (checks.open_doors, {"PDCP_BOOTSTRAP_HOST": "::", "PDCP_REGISTER_BY": "either"}, ["W010", "W011", "I001"]),
    (checks.open_doors, {"PDCP_BOOTSTRAP_HOST": "10.0.0.5", "PDCP_REGISTER_BY": "token"}, ["W011", "I001"]),
    (
        checks.open_doors,
        {"PDCP_BOOTSTRAP_HOST": "10.0.0.5", "PDCP_REGISTER_NETWORKS": LAN, "PDCP_READ_NETWORKS": LAN},
        [],
    ),
    (
        checks.open_doors,
        {"PDCP_BOOTSTRAP_HOST": "10.0.0.5", "PDCP_READ_NETWORKS": LAN, "PDCP_REGISTER_NETWORKS": ALL[1:]},
        ["W010"],
    ),
    (
        checks.open_doors,
        {
            "PDCP_BOOTSTRAP_HOST": "0.0.0.0",
            "PDCP_REGISTER_BY": "token",
            "PDCP_REGISTER_NETWORKS": LAN,
            "PDCP_READ_NETWORKS": LAN,
        },
        ["I001"],
    ),
    # The web process forwards both wires.
    (checks.open_doors, {"PDCP_WEB_HOST": "0.0.0.0"}, ["W010", "W011"]),
    (checks.open_doors, {"PDCP_WEB_HOST": "0.0.0.0", "PDCP_REGISTER_BY": "token", "PDCP_READ_NETWORKS": LAN}, []),
    (checks.open_doors, {"CSRF_TRUSTED_ORIGINS": ["https://pd.example.org"]}, ["W010", "W011"]),
    (checks.open_pages, {}, []),
    (checks.open_pages, {"DEBUG": True}, []),
    (checks.open_pages, {"DEBUG": True, "PDCP_WEB_HOST": "0.0.0.0"}, ["E010", "W013"]),
    (checks.open_pages, {"ALLOWED_HOSTS": ["pd.example.org", "*"]}, ["W012"]),
    (checks.open_pages, {"PDCP_WEB_HOST": "0.0.0.0", "CSRF_TRUSTED_ORIGINS": ["https://pd.example.org"]}, ["W014"]),
    (checks.open_pages, {"CSRF_TRUSTED_ORIGINS": ["https://x"], "SECURE_HSTS_SECONDS": 3600}, []),
    (checks.weak_secrets, {"SECRET_KEY": "x" * 50}, []),
    (checks.weak_secrets, {"SECRET_KEY": "changeme"}, ["E011"]),
    (checks.open_redis, {"REDIS_URL": ""}, []),
    (checks.open_redis, {"REDIS_URL": "unix:///run/redis.sock?db=0"}, []),
    (checks.open_redis, {"REDIS_URL": "redis://127.0.0.1:6379/0"}, []),
    (checks.open_redis, {"REDIS_URL": "redis://redis.svc:6379/0"}, ["W016"]),
    (checks.open_redis, {"REDIS_URL": "redis://:secret@redis.svc:6379/0"}, ["W016"]),
    (checks.open_redis, {"REDIS_URL": "rediss://:secret@redis.svc:6379/0"}, []),
    (checks.far_probes, {}, []),
    (checks.far_probes, {"PDCP_PROBE_NETWORKS": ALL}, ["W017"]),
]


@pytest.mark.parametrize(("check", "knobs", "expected"), NOT_SAFE)
def test_a_set_up_that_is_not_safe_where_others_reach_it_is_flagged(check, knobs, expected):
    with override_settings(**knobs):
        assert ids(check) == expected


def test_whoever_is_believed_about_a_visitors_address_is_named(monkeypatch):
    behind = {"PDCP_WEB_HOST": "0.0.0.0", "CSRF_TRUSTED_ORIGINS": ["https://pd.example.org"]}
    for believed, knobs, expected in (
        ("", behind, ["W020"]),
        ("10.0.0.7", behind, []),
        ("*", behind, ["W021"]),
        ("*", {"PDCP_WEB_HOST": "0.0.0.0"}, ["W021"]),
        ("", {"PDCP_WEB_HOST": "0.0.0.0"}, []),
        ("*", {"CSRF_TRUSTED_ORIGINS": ["https://pd.example.org"]}, []),
    ):
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", believed)
        with override_settings(**knobs):
            assert ids(checks.believed_proxies) == expected, (believed, knobs)


def test_a_key_that_one_host_made_is_not_for_a_shared_database(monkeypatch):
    monkeypatch.delenv("SECRET_KEY_FILE", raising=False)
    shared = {"default": {"ENGINE": "django.db.backends.postgresql"}}
    for given, expected in (("", ["W015"]), ("x" * 50, [])):
        monkeypatch.setenv("SECRET_KEY", given)
        with override_settings(SECRET_KEY="x" * 50):
            monkeypatch.setattr(settings, "DATABASES", shared)
            assert ids(checks.weak_secrets) == expected


def test_check_deploy_names_what_is_unsafe_and_never_a_secret(tmp_path):
    env = clean_env(
        PDCP_DATA_DIR=tmp_path,
        PDCP_BOOTSTRAP_HOST="0.0.0.0",
        REDIS_URL="redis://:hunter2@redis.svc:6379/0",
        SECRET_KEY="a-very-short-one",
    )
    done = manage("check", "--deploy", env=env)
    said = done.stdout + done.stderr
    assert done.returncode == 1 and all(f"controlplane.{id}" in said for id in ("W010", "W011", "W016", "E011"))
    assert "hunter2" not in said and "a-very-short-one" not in said
    assert manage("check", env=env).returncode == 0
