"""Public reports: who may be answered before everybody is there."""

from tests.wire.conftest import Server


def test_RDY_01_topology_is_503_until_the_last_rank_and_health_200_throughout(serve):
    one: Server = serve(PDCP_PROBE_NETWORKS="none")
    client = one.kv()

    def ask() -> list[int]:
        answers = [client.topology(), client.slot(), client("GET", "/route"), client("POST", "/route", js={})]
        assert all(answer.status < 500 or answer.status == 503 for answer in answers)
        assert client.health() == 200
        return [answer.status for answer in answers]

    assert ask() == [503, 503, 400, 405]
    assert "(0 workers registered)" in client.topology().text
    shape = {"attn_tp_size": 2, "pp_size": 2}
    slots = [(tp, pp) for tp in range(2) for pp in range(2)]
    for n, (tp, pp) in enumerate(slots):
        if n:
            assert ask() == [503, 503, 400, 405]
            assert f"({n} workers registered)" in client.topology().text
        assert client.put(**shape, attn_tp_rank=tp, pp_rank=pp, rank_port=41000 + n).status == 200
    assert ask() == [200, 200, 400, 405]
    topology = client.topology().json()
    assert [topology[key] for key in ("attn_tp_size", "pp_size", "dp_size", "page_size")] == [2, 2, 1, 64]
    for n, (tp, pp) in enumerate(slots):
        assert client.slot(tp=tp, pp=pp).json() == {"rank_ip": "10.0.1.10", "rank_port": 41000 + n}
