"""Fields of bodies, parameters and answers: strict about types on the way in, RFC 3339 and strings on the way out."""

from __future__ import annotations

import datetime
import math
from typing import Any

from django.utils.dateparse import parse_datetime
from rest_framework import serializers

from controlplane.domain.errors import Refused
from controlplane.domain.topology import MAX_SIZE, Slot
from controlplane.ledger import position
from controlplane.ledger.position import Position
from controlplane.models.intent import ALL_GROUPS
from controlplane.queries.wording import slot_key

MAX_INTEGER = 2**63 - 1
MAX_ROOM = 2**63 - 1
NO_NUL = r"^[^\x00]*$"


def textual(field: serializers.Field) -> bool:
    """Whether this is a parameter of the URL, where everything is text."""
    return bool(getattr(field.root, "textual", False))


class Text(serializers.CharField):
    """A string as it was sent: nothing trimmed, no number taken for one, no NUL."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("max_length", 200)
        if not options.get("allow_blank") and not options.get("read_only"):
            options.setdefault("min_length", 1)
        super().__init__(trim_whitespace=False, **options)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return str(super().to_internal_value(data))


class Whole(serializers.IntegerField):
    def __init__(self, **options: Any) -> None:
        options.setdefault("max_value", MAX_INTEGER)
        options.setdefault("min_value", 0)
        super().__init__(**options)

    def to_internal_value(self, data: Any) -> int:
        if not textual(self) and (isinstance(data, bool) or not isinstance(data, int)):
            self.fail("invalid")
        return int(super().to_internal_value(data))


class Number(serializers.FloatField):
    def to_internal_value(self, data: Any) -> float:
        if not textual(self) and (isinstance(data, bool) or not isinstance(data, (int, float))):
            self.fail("invalid")
        try:
            value = float(super().to_internal_value(data))
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            self.fail("invalid")
        return value


class Flag(serializers.BooleanField):
    def to_internal_value(self, data: Any) -> bool:
        if textual(self):
            data = {"true": True, "false": False}.get(data)
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class Group(Whole):
    """A DP group: null, or absent, is the whole instance, which the tables call −1."""

    def __init__(self, **options: Any) -> None:
        options = {"allow_null": True, "max_value": MAX_SIZE - 1, **options}
        if not options.get("read_only"):
            options.setdefault("required", False)
        super().__init__(**options)

    def to_representation(self, value: int) -> int | None:
        return None if value == ALL_GROUPS else int(value)


class Room(serializers.Field):
    """A room as a string: JavaScript rounds numbers beyond 2^53."""

    default_error_messages = {"invalid": "a room is a string of digits, between 0 and 2^63-1"}

    def to_internal_value(self, data: Any) -> int:
        if not (isinstance(data, str) and data.isascii() and data.isdigit() and len(data) <= 19):
            self.fail("invalid")
        room = int(data)
        if room > MAX_ROOM:
            self.fail("invalid")
        return room

    def to_representation(self, value: int) -> str:
        return str(value)


class Moment(serializers.Field):
    """RFC 3339 in UTC outside, epoch seconds inside."""

    default_error_messages = {"invalid": "a time is written like 2026-01-31T10:02:00Z, with its offset from UTC"}

    def to_internal_value(self, data: Any) -> float:
        try:
            at = parse_datetime(data) if isinstance(data, str) else None
            if at is not None and at.tzinfo is not None:
                return at.timestamp()
        except (ValueError, OverflowError):
            # A date that no calendar has.
            at = None
        self.fail("invalid")
        raise AssertionError("unreachable")

    def to_representation(self, value: float) -> str:
        stamp = datetime.datetime.fromtimestamp(value, datetime.UTC)
        return stamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class AsOf(serializers.Field):
    """A moment, as epoch seconds, or a position in the ledger (`LEDGER:N`)."""

    default_error_messages = {"invalid": "as of a time like 2026-01-31T10:02:00Z, or of a position like LEDGER:N"}

    def to_internal_value(self, data: Any) -> Position | float:
        if not isinstance(data, str) or len(data) > 80:
            self.fail("invalid")
        if "T" in data:
            return Moment().to_internal_value(data)
        try:
            return position.read(data)
        except Refused:
            self.fail("invalid")
            raise


class SlotKey(serializers.Field):
    """A slot in one word: `dp0.cp0.tp1.pp0`."""

    default_error_messages = {"invalid": "a slot is written like dp0.cp0.tp1.pp0"}

    def to_internal_value(self, data: Any) -> Slot:
        parts = data.split(".") if isinstance(data, str) and len(data) <= 40 else []
        if [part[:2] for part in parts] != ["dp", "cp", "tp", "pp"]:
            self.fail("invalid")
        numbers = [part[2:] for part in parts]
        if not all(number.isascii() and number.isdigit() and int(number) < MAX_SIZE for number in numbers):
            self.fail("invalid")
        return Slot(*map(int, numbers))

    def to_representation(self, value: Slot) -> str:
        return slot_key(value)


class Choice(serializers.ChoiceField):
    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, str):
            self.fail("invalid_choice", input=data)
        return super().to_internal_value(data)
