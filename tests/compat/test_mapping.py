"""What real decode ranks compute from our topology answer is what our own rank mapping says."""


def test_every_decode_rank_computes_what_our_rank_mapping_says(target, sglang):
    target.start()
    facts = sglang.open("mapping", port=target.kv_port)
    assert facts["differences"] == []
    # Prefill TP 4 · PP 2 for decode TP 2: two TP ranks of two stages each; MLA needs only the first for real.
    assert facts["dummies"] == {"not mla": [False] * 4, "mla": [False, False, True, True]}


def test_a_decode_reaches_every_cp_rank_when_its_engine_pulls_from_all(target, sglang):
    target.start()
    every, first = [0, 1], [0]
    assert sglang.open("all_cp_ranks", port=target.kv_port) == {
        "hybrid False, all CP False": {"theirs": False, "ours": False, "reached": first},
        "hybrid False, all CP True": {"theirs": True, "ours": True, "reached": every},
        "hybrid True, all CP False": {"theirs": True, "ours": True, "reached": every},
        "hybrid True, all CP True": {"theirs": True, "ours": True, "reached": every},
    }


def test_a_decode_that_reads_kv_differently_refuses_by_itself(target, sglang):
    target.start()
    facts = sglang.open("disagreement", port=target.kv_port)
    assert facts["agreeing_is_ready"]
    assert "page_size=64, but decode server has page_size=32" in facts["refusals"]["page_size"]
    assert "kv_cache_dtype=fp8_e4m3" in facts["refusals"]["dtype"]
