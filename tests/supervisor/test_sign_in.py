"""The sign-in link that `manage.py up` prints: for whom, how often, how long."""

import re

import httpx

from tests.supervisor.conftest import get

LINK = r"(http://\S+/sign-in/\S+/)"


def post(client: httpx.Client, link: str) -> httpx.Response:
    page = client.get(link)
    assert page.status_code == 200
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    assert token
    return client.post(link, data={"csrfmiddlewaretoken": token[1]}, headers={"Referer": link})


def test_on_a_terminal_the_link_signs_in_as_administrator_once(up):
    run = up(tty=True).wait_ready()
    link = run.wait_for(LINK)[1]
    with httpx.Client(timeout=30) as first, httpx.Client(timeout=30) as second:
        assert first.get(f"{run.web}/admin/").status_code == 302
        # Looking at the link does not spend it.
        assert first.get(link).status_code == second.get(link).status_code == 200
        assert post(first, link).status_code == 302
        assert first.get(f"{run.web}/admin/").status_code == 200
        refused = post(second, link)
        assert refused.status_code == 403
        assert "used before" in refused.text
        assert second.get(f"{run.web}/admin/").status_code == 302


def test_without_a_terminal_there_is_no_link(up):
    run = up().wait_ready()
    assert not re.search(LINK, run.output)
    # How else to get in is said here, and where one stands before the door.
    run.wait_for("sign in +with a password; the first account: python manage.py createsuperuser")
    assert "manage.py createsuperuser" in get(f"{run.web}/sign-in/").text


def test_when_the_web_port_is_open_to_other_machines_there_is_no_link(up):
    run = up(tty=True, PDCP_WEB_HOST="0.0.0.0", ALLOWED_HOSTS="localhost,127.0.0.1").wait_ready()
    assert not re.search(LINK, run.output)


def test_pages_carry_a_strict_content_security_policy(up):
    run = up().wait_ready()
    for path in ("/sign-in/", "/admin/login/", "/sign-in/x/"):
        page = get(run.web + path)
        assert page.status_code == 200
        policy = page.headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
    style = get(f"{run.web}/static/dashboard/css/base.css")
    assert (style.status_code, style.headers["Content-Type"].split(";")[0]) == (200, "text/css")
