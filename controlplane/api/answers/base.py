"""The base of answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rest_framework import serializers


class Answer(serializers.Serializer):
    """Read only: fields are read from a row, by their name or `source`."""

    @classmethod
    def of(cls, row: Any) -> dict[str, Any]:
        return dict(cls(row).data)

    @classmethod
    def all_of(cls, rows: Iterable[Any]) -> list[dict[str, Any]]:
        return [dict(row) for row in cls(list(rows), many=True).data]


def page_of(shape: type[Answer], name: str) -> type[Answer]:
    """The answer of a paged list of `shape`."""
    fields: dict[str, Any] = {
        "items": shape(many=True),
        "next": serializers.CharField(
            allow_null=True, help_text="Give it as `cursor` for the next page; null on the last."
        ),
    }
    return type(name, (Answer,), {"__doc__": f"A page of {name.removesuffix('Page').lower()}s.", **fields})


class Sentences(serializers.ListField):
    """A list of texts."""

    child = serializers.CharField()
