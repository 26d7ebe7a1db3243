"""What each kind of alarm means, where to look and what to do: one entry for each state of each kind of thing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Runbook(NamedTuple):
    """`look` and `do`: steps, in order."""

    title: str
    means: str
    look: tuple[str, ...]
    do: tuple[str, ...]


OTHER = "other"


def runbook_of(key: str) -> str:
    """The entry for an alarm, by its key.

    >>> runbook_of("down:instance:prefill-a:prefill-a"), runbook_of("many:down:instance"), runbook_of("odd:thing:x")
    ('down-instance', 'down-instance', 'other')
    """
    state, _, rest = key.removeprefix("many:").partition(":")
    name = f"{state}-{rest.partition(':')[0]}"
    return name if name in RUNBOOKS else OTHER


RUNBOOKS: Mapping[str, Runbook] = {
    "away-events": Runbook(
        "The bootstrap process does not lead",
        "Nobody answers look-ups, and nobody can register. Decodes that know their prefill already go on; new pairs fail.",
        ("its log, and that of its stand-by", "whether the database answers", "the lease, in the admin under Leases"),
        ("start manage.py bootstrap, or manage.py up", "free the port, if another program holds it"),
    ),
    "down-role": Runbook(
        "No instance of a role takes requests",
        "Every instance of this role that is wanted takes none: nothing new can be served.",
        ("what they have in common: a host, a network, a release", "the events of the last minutes"),
        ("bring back the one that lacks least", "undo the last change, if they went down together"),
    ),
    "down-instance": Runbook(
        "An instance lost ranks, or its engine",
        "It served, and some of its ranks are gone, or its own HTTP server refuses connections, says that it is not well, or"
        " was not heard for long: no request is sent to it until all of that is back.",
        ("its rank grid: which slots are empty, and why they left", "the host that they share, its log and its GPUs"),
        ("start the engine again: its ranks register by themselves", "cordon or retire it, if it shall stay away"),
    ),
    "open-instance": Runbook(
        "Breakers keep work from an instance",
        "It stands, and every gateway that could choose it has its breaker open: requests to it failed.",
        ("the gateway's page: which requests failed, and since when", "the engine's own log at that time"),
        ("mend what failed: a breaker closes by itself once probes succeed", "cordon it meanwhile"),
    ),
    "degraded-instance": Runbook(
        "Ranks do not answer probes",
        "Their connections are accepted or time out, and nobody greets. They count as present: they may hang, or be out of"
        " reach from here alone.",
        ("whether the processes run, and hang", "whether the network between here and them is whole"),
        ("end a process that hangs: then its slot is free for its successor", "see PDCP_PROBE_NETWORKS and firewalls"),
    ),
    "flushing-instance": Runbook(
        "An instance answers 503 on purpose",
        "Its ranks changed, and decodes may have cached the old ones: /health answers 503 until each was told twice.",
        ("who still polls /health: the instance's facts", "whether its ranks come and go"),
        ("wait: it ends by itself after a minute at the latest",),
    ),
    "missing-instance": Runbook(
        "An instance is wanted, and was never there",
        "It is enabled, and nothing of it is registered or published.",
        (
            "whether its engine runs, and which bootstrap address it was started with",
            "refused registrations, in Events",
        ),
        ("start it, or correct its --disaggregation-bootstrap-port and host", "retire it, if it is not wanted"),
    ),
    "unproven-instance": Runbook(
        "A full launch that probes do not prove",
        "All ranks are registered, and not all of them have answered a probe: look-ups are answered 503 until they have.",
        ("which of its ranks have not answered", "whether their addresses can be reached from the control plane"),
        ("correct the address that they advertise", "open the network, or leave it out of PDCP_PROBE_NETWORKS"),
    ),
    "refused-events": Runbook(
        "A shared listener was asked without a name",
        "Several instances share that port, so an answer could be another instance's: nothing was answered, nothing stored.",
        ("Events, refusals: what was asked, and from where", "which instances share the listener, under Instances"),
        ("let who asks name its instance: header, path or NAME:x@host", "or give each instance a port of its own"),
    ),
    "refused-instance": Runbook(
        "Registrations were refused",
        "A rank sent something that cannot be stored. Nothing of it was: the directory is as it was before.",
        ("the sentence of the refusal, and the address that it came from",),
        (
            "correct what that rank sends: most often sizes or indexes that do not fit together, or a token that is missing",
        ),
    ),
    "stalled-launches": Runbook(
        "A launch stopped filling",
        "Some of its ranks registered and the others did not come for a minute: it cannot serve.",
        ("the log of the missing ranks: most often they wait for each other, or one of them failed to start",),
        ("start the launch again, whole", "supersede it, if another one shall serve"),
    ),
    "blocked-launches": Runbook(
        "A whole launch waits for the one before it",
        "Every rank of the new launch is there. A rank of the old one still answers, and could be harmed by a switch.",
        (
            "which ranks of the old launch answer",
            "whether anybody still needs them: when both are meant to run, two engines were given one name",
        ),
        (
            "stop what is left of the old launch",
            "or let the new one supersede it, knowing what is in flight",
            "give an engine that runs beside it a name of its own, and start it again",
        ),
    ),
    "conflict-launches": Runbook(
        "A slot is claimed twice",
        "Two processes with the token of one launch ask for the same slot, and both answer.",
        ("which of the two addresses is meant: it was started twice",),
        ("end the one that is not wanted",),
    ),
    "conflict-weights": Runbook(
        "Two sessions publish one rank",
        "A session claims a rank whose session answers. The first is served; the other is kept aside.",
        ("which engine each session belongs to",),
        ("end the engine that should not publish, or give it a name of its own",),
    ),
    "blocked-drain": Runbook(
        "A drain waits",
        "Somebody may still send to it, or nobody can say that nothing is left: it is not safe to delete.",
        ("the drain's page: what blocks, with the next step of each",),
        ("do the next step of the first blocker", "force it, knowing that what is in flight may be lost"),
    ),
    "overdue-drain": Runbook(
        "A drain is past its deadline",
        "It goes on, and is not done: what it drains may still hold requests.",
        ("the drain's page: what blocks, and how much is open",),
        ("wait, cancel it, or force it, knowing that what is in flight may be lost",),
    ),
    "silent-gateway": Runbook(
        "A gateway is silent",
        "Nothing was heard from it for longer than its lease. It may still send by its last snapshot; drains wait for it.",
        ("whether it runs, and reaches this control plane", "whether its token was revoked or has expired"),
        ("start it again", "remove it, if it is gone for good"),
    ),
    "away-router": Runbook(
        "A router does not answer",
        "It cannot be told whom to send to, and may go on with the workers that it had.",
        ("whether it runs, and its URL is the right one",),
        ("start it again: it is told of its workers by itself", "remove it, if it is gone for good"),
    ),
    "mismatch-router": Runbook(
        "A router is not as it shall be",
        "It answers, and would not take or let go of a worker, or its metrics do not tell how its breakers stand.",
        ("the router's page: which worker, and what it said", "what its metrics URL answers: smg_worker_cb_state"),
        (
            "mend what it says of that worker",
            "start the router again, if its list cannot be changed",
            "correct the address of its metrics, or take that away",
        ),
    ),
    "mismatch-pair": Runbook(
        "Instances fit none of the other role",
        "Prefill and decode disagree about a fact of the cache: a transfer between them would fail or be refused.",
        ("the pair's page: the facts of both, side by side",),
        ("start one of them with the setting of the other",),
    ),
    "incompatible-pair": Runbook(
        "A router may put together what cannot work",
        "One router holds both instances of a pair that cannot work together: some of its requests fail.",
        ("the pair's page: the facts of both, side by side",),
        ("take one of them off that router's list", "start one of them with the setting of the other"),
    ),
    "starting-instance": Runbook(
        "An engine does not get ready",
        "Its HTTP server has answered for a long time that it is starting, and it takes no requests meanwhile.",
        ("the engine's log: what it loads or waits for", "whether all of its ranks run"),
        ("end and start it again, if it waits for a rank that will not come", "cordon it, if it shall take its time"),
    ),
    "stranger-instance": Runbook(
        "Somebody else answers in the place of an engine",
        "What answers at its engine URL is no engine, or not the one that is meant.",
        ("which process listens at that address", "the role and the model that it tells"),
        ("correct the engine URL of the instance", "end whoever has taken the address"),
    ),
    "silent-instance": Runbook(
        "An engine does not answer",
        "Nothing came from its HTTP server any more, or one of its DP groups computes no more while the others do. Nothing"
        " proves that it ended: it is sent work all the same.",
        ("whether its process runs, and hangs", "whether its host can be reached from here"),
        ("end a process that hangs, and start it again", "mend the network; nothing is held against it meanwhile"),
    ),
    "stalled-instance": Runbook(
        "Requests of an engine do not get on",
        "It is well, requests wait in it for a minute or longer, and it computes none of them: they wait for their other side."
        " What is sent there waits, until it is given up.",
        (
            "at a prefill: whether decodes reach its bootstrap port and its ranks; their logs",
            "at a decode: whether its prefills are well, whether they reach it, and what holds its memory",
            "one of these rooms: manage.py explain --room ROOM",
        ),
        (
            "mend the network, or the addresses that its ranks advertise",
            "start the side again whose log says that a transfer or a handshake hangs",
        ),
    ),
    "late-instance": Runbook(
        "An engine is busy",
        "It computes and answers its /health late or not at all. It is sent work all the same.",
        ("its load: what runs and what waits", "whether one long prompt holds all of it"),
        ("send it less", "give it more time, if it is always like that"),
    ),
    "in_doubt-events": Runbook(
        "Verdicts are paused",
        "Most of what is asked stopped answering at once. That is more likely a fault of our own network than of all of them"
        ", so nothing is held against them.",
        ("whether the hosts of the engines can be reached from the control plane", "what changed in the network"),
        ("mend the network; everything goes on by itself",),
    ),
    "stopped-clockwork": Runbook(
        "The clockwork, or a task of it, stopped",
        "What changes because time passes is not done: drains do not end, engines are not asked, old rows stay.",
        ("the Clockwork page: which tasks, and since when", "the log of the Celery worker and its beat", "Redis"),
        ("start the Celery worker with its beat",),
    ),
    "failing-clockwork": Runbook(
        "A task of the clockwork fails",
        "It runs, and each of its rounds ends with an error.",
        ("the Clockwork page: what the last rounds said", "the log of the Celery worker"),
        ("mend what the error names: a database, an address, a right",),
    ),
    OTHER: Runbook(
        "Something else needs a person",
        "It says itself what is wrong, why, and what to do next.",
        ("its sentence, and the events of the time at which it began",),
        ("the next step that it names",),
    ),
}
"""By state and kind of place. A test looks for one that is missing, and for one that nothing leads to."""
