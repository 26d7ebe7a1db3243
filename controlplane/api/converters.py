"""What may stand in a path. Whatever else is sent there matches nothing, and never reaches a database."""

from __future__ import annotations

from django.urls import register_converter
from django.urls.converters import IntConverter, StringConverter

from controlplane.domain.names import NAME


class Named(StringConverter):
    """The name of an instance, a gateway or a router."""

    regex = NAME.pattern


class Operation(StringConverter):
    regex = "(?:request|drain)-[0-9]{1,18}"


class TokenKey(StringConverter):
    regex = "[0-9A-Za-z_]{1,25}"


class Digits(IntConverter):
    regex = "[0-9]{1,18}"


class RoomDigits(Digits):
    regex = "[0-9]{1,19}"


register_converter(Named, "name")
register_converter(Operation, "operation")
register_converter(TokenKey, "token")
register_converter(Digits, "digits")
register_converter(RoomDigits, "room")
