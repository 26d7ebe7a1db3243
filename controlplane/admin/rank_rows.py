"""Ranks as the admin lists them: a page at a time, by the order of their key, never counting them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.db.models import Exists, OuterRef, QuerySet

from controlplane.acts.targets import Target
from controlplane.databases import READER
from controlplane.domain.contact import Contact
from controlplane.domain.topology import Slot, Topology
from controlplane.models import Instance, Launch, Rank
from controlplane.queries.fleet import snapshot
from controlplane.queries.wording import address, slot_name

PAGE = 100
LAST_PAGE = 200
"""Further on is not paged to: that is what filters are for."""

MOST_INSTANCES = 200


class RankFilter(forms.Form):
    """What can be asked of the list of ranks, all of it in its address."""

    instance = forms.CharField(required=False, max_length=100, help_text="a part of the name")
    state = forms.ChoiceField(
        required=False, choices=[("", "registered"), ("left", "left"), ("all", "all that are kept")]
    )
    contact = forms.ChoiceField(required=False, choices=[("", "any"), *((c.value, c.value) for c in Contact)])
    launch = forms.IntegerField(required=False, min_value=0, max_value=2**31 - 1)
    dp = forms.IntegerField(required=False, min_value=0, max_value=2**31 - 1, label="DP group")
    ip = forms.CharField(required=False, max_length=253, label="Address")
    p = forms.IntegerField(required=False, min_value=1, max_value=LAST_PAGE, widget=forms.HiddenInput)


@dataclass(frozen=True, slots=True)
class Listed:
    """A rank with what its page and its actions need. `open`: it counts in a launch that has not ended."""

    rank: Rank
    instance: str
    topology: Topology | None
    open: bool

    @property
    def slot(self) -> Slot:
        return Slot(self.rank.dp, self.rank.cp, self.rank.tp, self.rank.pp)

    @property
    def name(self) -> str:
        return slot_name(self.slot, self.topology)

    @property
    def address(self) -> str:
        return address(self.rank.ip, self.rank.port)

    @property
    def target(self) -> Target:
        return Target(self.instance, slot=self.slot, launch=self.rank.launch)

    @property
    def state(self) -> str:
        if self.rank.left_at is not None:
            return "left"
        return "registered" if self.open else "of an ended launch"


@dataclass(frozen=True, slots=True)
class RankPage:
    rows: Sequence[Listed]
    more: bool


def page(asked: dict[str, Any]) -> RankPage:
    """One page of what the filter (cleaned data of `RankFilter`) asks for."""
    number = asked.get("p") or 1
    with snapshot():
        ranks = _filtered(asked).order_by("instance_id", "launch", "dp", "cp", "tp", "pp")
        start = (number - 1) * PAGE
        found = list(ranks[start : start + PAGE + 1])
        return RankPage(_listed(found[:PAGE]), len(found) > PAGE and number < LAST_PAGE)


def one(instance: str, launch: int, slot: Slot) -> Listed | None:
    with snapshot():
        row = Instance.objects.using(READER).filter(name=instance).first()
        if row is None:
            return None
        ranks = Rank.objects.using(READER).filter(
            instance_id=row.pk, launch=launch, dp=slot.dp, cp=slot.cp, tp=slot.tp, pp=slot.pp
        )
        return next(iter(_listed(list(ranks))), None)


def _filtered(asked: dict[str, Any]) -> QuerySet[Rank]:
    ranks = Rank.objects.using(READER).all()
    if asked.get("instance"):
        named = Instance.objects.using(READER).filter(name__icontains=asked["instance"]).values_list("pk", flat=True)
        ranks = ranks.filter(instance_id__in=list(named[:MOST_INSTANCES]))
    for field in ("launch", "dp"):
        if asked.get(field) is not None:
            ranks = ranks.filter(**{field: asked[field]})
    if asked.get("contact"):
        ranks = ranks.filter(contact=asked["contact"])
    if asked.get("ip"):
        ip, _, port = asked["ip"].strip("[]").rpartition(":") if asked["ip"].count(":") == 1 else (asked["ip"], "", "")
        ranks = ranks.filter(ip=ip, **({"port": int(port)} if port.isdecimal() and len(port) < 6 else {}))
    if asked.get("state") == "left":
        return ranks.exclude(left_at=None)
    if asked.get("state") == "all":
        return ranks
    launches = Launch.objects.filter(instance_id=OuterRef("instance_id"), number=OuterRef("launch"), ended_at=None)
    return ranks.filter(Exists(launches), left_at=None)


def _listed(ranks: Sequence[Rank]) -> list[Listed]:
    ids = {rank.instance_id for rank in ranks}
    names = dict(Instance.objects.using(READER).filter(pk__in=ids).values_list("pk", "name"))
    numbers = {rank.launch for rank in ranks}
    launches = {
        (launch.instance_id, launch.number): launch
        for launch in Launch.objects.using(READER).filter(instance_id__in=ids, number__in=numbers)
    }
    rows = []
    for rank in ranks:
        launch = launches.get((rank.instance_id, rank.launch))
        topology = Topology(launch.dp, launch.cp, launch.tp, launch.pp) if launch is not None else None
        counts = rank.left_at is None and launch is not None and launch.ended_at is None
        rows.append(Listed(rank, names.get(rank.instance_id, f"instance {rank.instance_id}"), topology, counts))
    return rows
