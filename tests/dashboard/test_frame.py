"""The frame: who gets in, what every page says, and that a part is the same alone and in its page."""

import pytest


@pytest.mark.parametrize(
    "path", ["/", "/rooms/", "/pairs/", "/drains/", "/weights/", "/gateways/", "/alarms/", "/events/", "/tokens/"]
)
def test_whoever_is_not_signed_in_is_asked_to_and_comes_back(stranger, path):
    answer = stranger.client.get(path)
    assert (answer.status_code, answer["Location"]) == (302, f"/sign-in/?next={path}")
    assert stranger.client.get(path, headers={"X-PDCP-Parts": "frame"}).status_code == 401


def test_an_account_without_a_role_is_told_so(nobody):
    assert "none of the groups viewer, operator and admin" in nobody.text("/", status=403)


def test_what_does_not_exist_is_a_page_with_the_request_id(operator):
    said = operator.text("/nothing-here/", status=404)
    assert "there is no page /nothing-here/" in said.lower() and "Request" in said


def test_a_part_that_a_page_does_not_have_is_not_found(operator):
    operator.get("/", parts="no-such-part", status=404)


def test_a_page_travels_compressed_to_whoever_can_read_that(operator):
    plain = operator.client.get("/")
    packed = operator.client.get("/", headers={"Accept-Encoding": "gzip"})
    assert packed["Content-Encoding"] == "gzip" and 3 * len(packed.content) < len(plain.content)
    assert packed["X-PDCP-Cursor"] == plain["X-PDCP-Cursor"]
