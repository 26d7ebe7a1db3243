"""A row of any table, filled by the types of its columns: a table that is added later needs nothing here."""

from __future__ import annotations

import itertools
import time
from typing import Any

from django.apps import apps
from django.contrib.auth.models import User
from django.db import models, router
from django.utils import timezone

SECRETS = {
    "Instance": ("engine_key",),
    "Router": ("api_key",),
    "MachineToken": ("digest",),
    "SignInLink": ("digest",),
    "IdempotentRequest": ("digest", "headers", "body"),
    "EngineBody": ("compressed",),
}
"""Columns that no page may show."""

MARK = "s3cret"
JSON = {"data": "{}", "facts": "{}", "seen": "{}", "blockers": "[]", "claims": ""}
_numbers = itertools.count(1)


def ours() -> list[type[models.Model]]:
    return list(apps.get_app_config("controlplane").get_models())


def row_of(model: type[models.Model], **given: Any) -> Any:
    """A stored row. What must be unique is; secrets hold a mark that can be looked for."""
    number = next(_numbers)
    values = {
        field.name: value_for(model, field, number) for field in model._meta.concrete_fields if field.name not in given
    }
    return model._default_manager.using(router.db_for_write(model)).create(**values, **given)


def value_for(model: type[models.Model], field: Any, number: int) -> Any:
    if field.name in SECRETS.get(model.__name__, ()):
        text = f"{MARK}-{number}"
        return text.encode() if isinstance(field, models.BinaryField) else text
    if isinstance(field, models.BinaryField):
        return f"{field.name}-{number}".encode()
    if field.name in JSON:
        return JSON[field.name]
    if isinstance(field, models.AutoField):
        # Beyond what migrations have put there.
        return 1000 + number
    if field.choices:
        return field.choices[0][0]
    if isinstance(field, models.ForeignKey):
        return User.objects.get_or_create(username="maker")[0] if field.related_model is User else None
    if isinstance(field, models.BooleanField):
        return True
    if isinstance(field, models.FloatField):
        return time.time() - 60
    if isinstance(field, models.IntegerField):
        return number
    if isinstance(field, models.DateTimeField):
        return timezone.now()
    if field.name == "instance":
        return "prefill-a"
    return f"{field.name}-{number}"[: field.max_length]
