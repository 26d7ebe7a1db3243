"""Several instances behind one port, for clients that know nothing of instances."""


def test_an_unmodified_decode_names_its_instance_in_bootstrap_host(ours, sglang):
    ours.start()
    facts = sglang.open("tenancy", port=ours.kv_port)
    assert facts["found"] == facts["wanted"]
    assert facts["rooms"] == {"prefill-a": {"5": 0}, "prefill-b": {"5": 1}}
    assert all(count >= 2 for count in facts["beats"].values())
    # Another instance's page size would kill the decode that asked: no guess is made.
    assert facts["nameless_is_ready"] is False
