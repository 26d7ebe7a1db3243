"""What an answer's head says, and what is refused since both ends would read it differently."""

import pytest

from workers.sdk import http11
from workers.sdk.http11 import Unreadable, chunk_size, read_head, request_head


def head(*lines: str) -> bytes:
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


@pytest.mark.parametrize(
    ("lines", "length", "chunked", "keeps"),
    [
        (["HTTP/1.1 200 OK", "Content-Length: 2"], 2, False, True),
        (["HTTP/1.1 200 OK", "content-length:2", "CONTENT-LENGTH: 2"], 2, False, True),
        (["HTTP/1.1 200", "Transfer-Encoding: Chunked"], None, True, True),
        (["HTTP/1.1 200 OK"], None, False, False),
        (["HTTP/1.1 204 No Content"], 0, False, True),
        (["HTTP/1.1 304 Not Modified", "Content-Length: 9"], 0, False, True),
        (["HTTP/1.1 200 OK", "Content-Length: 2", "Connection: close"], 2, False, False),
        (["HTTP/1.0 200 OK", "Content-Length: 2"], 2, False, False),
        (["HTTP/1.0 200 OK", "Content-Length: 2", "Connection: keep-alive"], 2, False, True),
    ],
)
def test_a_head_says_how_its_body_ends_and_whether_the_connection_stays(lines, length, chunked, keeps):
    found = read_head(head(*lines))
    assert (found.length, found.chunked, found.keeps) == (length, chunked, keeps)


@pytest.mark.parametrize(
    "lines",
    [
        ["HTTP/2 200"],
        ["SSH-2.0-OpenSSH"],
        ["HTTP/1.1 2000 OK"],
        ["HTTP/1.1 200 OK", "Content-Length: 2", "Content-Length: 3"],
        ["HTTP/1.1 200 OK", "Content-Length: -1"],
        ["HTTP/1.1 200 OK", "Content-Length: 0x10"],
        ["HTTP/1.1 200 OK", "Content-Length: 2", "Transfer-Encoding: chunked"],
        ["HTTP/1.1 200 OK", "Transfer-Encoding: gzip, chunked"],
        ["HTTP/1.1 200 OK", "no colon"],
        ["HTTP/1.1 200 OK", "bad name : x"],
        ["HTTP/1.1 200 OK", "x: a\nb: c"],
    ],
)
def test_what_is_ambiguous_is_refused(lines):
    with pytest.raises(Unreadable):
        read_head(head(*lines))


@pytest.mark.parametrize("line", [b"", b"\r\n", b"-1\r\n", b"+5\r\n", b"0x5\r\n", b"5 6\r\n", b"f" * 16 + b"\r\n"])
def test_a_chunk_that_does_not_say_its_size_is_refused(line):
    with pytest.raises(Unreadable):
        chunk_size(line)


def test_a_chunk_says_its_size_in_hexadecimal_extensions_aside():
    assert [chunk_size(line) for line in (b"a\r\n", b"FF;x=1\r\n", b"0\r\n")] == [10, 255, 0]


@pytest.mark.parametrize(
    ("target", "headers"), [("/a b", {}), ("/a\r\nx: y", {}), ("/", {"x": "a\r\nhost: b"}), ("/", {"x\n": "a"})]
)
def test_no_value_can_begin_another_line(target, headers):
    with pytest.raises(ValueError, match="line break"):
        request_head("GET", target, "h:1", headers, length=None)


def test_a_request_is_what_servers_expect():
    sent = request_head("PUT", "/route", "[::1]:8998", {"x-pd-token": "t"}, length=3)
    assert sent == b"PUT /route HTTP/1.1\r\nhost: [::1]:8998\r\nx-pd-token: t\r\ncontent-length: 3\r\n\r\n"
    assert b"transfer-encoding: chunked" in request_head("PUT", "/", "h", {}, length=None, chunked=True)
    assert http11.as_chunk(b"xyz" * 6) == b"12\r\n" + b"xyz" * 6 + b"\r\n"
