"""Real senders bind rooms to DP ranks; real receivers ask for them."""

LARGEST = str(2**63 - 1)


def test_rooms_that_senders_registered_are_found_and_others_are_left_out(target, sglang):
    target.start()
    facts = sglang.open("rooms", port=target.kv_port)
    assert facts["found"] == {LARGEST: 1, "0": 2, "7": 0}
    assert sglang.go_on()["rebound"] == {"7": 2}
