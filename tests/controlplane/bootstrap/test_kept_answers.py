"""What an instance keeps of finished answers is bounded, and forgotten when its values change."""

from controlplane.bootstrap import fleet
from controlplane.bootstrap.fleet import Instance
from controlplane.protocol.replies import PLAIN_JSON, Reply


def test_whatever_askers_think_of_the_kept_answers_stay_within_their_bytes():
    instance = Instance(1, "prefill-a")
    reply = Reply(200, b"x" * 10_000, PLAIN_JSON)
    for number in range(1_000):
        instance.keep_resolved(b'{"decode": {}}' + b" " * number, reply)
    held = sum(len(question) + len(kept.body) for question, kept in instance.resolved.items())
    assert held == instance.resolved_bytes <= fleet.MAX_RESOLVED_BYTES
    assert len(instance.resolved) > 300, "and they are kept as long as there is room"
    instance.forget_answers()
    assert not instance.resolved and instance.resolved_bytes == 0
    instance.keep_resolved(b"again", reply)
    assert instance.resolved[b"again"] is reply
