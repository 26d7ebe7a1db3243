"""System checks over settings that are valid one by one."""

from django.conf import settings

from controlplane import checks, env


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
