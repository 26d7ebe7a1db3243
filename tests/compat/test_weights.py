"""A real weight transporter publishes; a real loader asks."""


def test_weights_are_published_and_loaded_exactly(target, sglang):
    target.start()
    facts = sglang.open("weights", engine_port=target.engine_port)
    if target.is_ours:
        assert facts["got"] == facts["wanted"]
    else:
        # The original serves this path only on the engine's main port: asked directly it answers 404.
        assert list(facts["got"].values()) == [[None, None]] * 4
    assert facts["unknown_rank"] == [None, None]
