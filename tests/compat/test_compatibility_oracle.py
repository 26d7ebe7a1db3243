"""What we say of a pair is what SGLang's own handshake does with it: which fact ends the decode first, or fails requests.

Sizes that do not divide one another are left out: SGLang rounds them down there, and its requests fail or hang later.
"""


def test_our_verdict_about_a_pair_is_what_sglang_does(sglang_process):
    found = sglang_process.open("compatibility_oracle", seed=23)
    assert found["differences"] == []
    dies = {kind.removeprefix("dies of ") for kind in found["tally"] if kind.startswith("dies of ")}
    assert dies == {
        "cp_size",
        "dcp_size",
        "dsv41_spec_layout",
        "kv_cache_dtype",
        "kv_layout",
        "page_size",
        "pp_size",
        "tp_size",
    }
    assert found["tally"]["request fails"] > 500 and found["tally"]["works"] > 1000
