"""One spelling for an address."""

import pytest

from controlplane.domain.errors import Refused
from workers.messaging.endpoint import Endpoint


@pytest.mark.parametrize(
    ("text", "host", "tcp"),
    [
        ("10.0.0.1:5", "10.0.0.1", "tcp://10.0.0.1:5"),
        ("[::1]:5", "::1", "tcp://[::1]:5"),
        ("[FD00::0:1]:5", "fd00::1", "tcp://[fd00::1]:5"),
        ("Node-7.Rack:5", "node-7.rack", "tcp://node-7.rack:5"),
    ],
)
def test_an_endpoint_reads_what_it_writes(text, host, tcp):
    endpoint = Endpoint.parse(text)
    assert (endpoint.host, endpoint.port, endpoint.tcp) == (host, 5, tcp)
    assert Endpoint.parse(str(endpoint)) == endpoint
    assert endpoint.is_ipv6 == (":" in host)


@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":5", "::1:5", "h:0", "h:65536", "h:+5", "h:5555555", "0.0.0.0:5"]
)
def test_what_is_no_endpoint_is_refused_with_a_sentence(text):
    with pytest.raises(Refused) as why:
        Endpoint.parse(text)
    assert why.value.sentence


def test_ipv4_inside_ipv6_is_the_ipv4_address():
    assert Endpoint.at("[::ffff:10.0.0.1]", 5) == Endpoint.at("10.0.0.1", 5)
