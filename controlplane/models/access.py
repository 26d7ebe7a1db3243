"""Ways in: sign-in links for people, tokens for machines; and what was tried."""

from django.conf import settings
from django.db import models
from knox.models import AbstractAuthToken


class SignInLink(models.Model):
    """One link, usable once before `expires_at`. Its token is shown once; only the SHA-256 of it is kept."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)
    used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        app_label = "controlplane"
        verbose_name = "sign-in link"

    def __str__(self) -> str:
        state = "used" if self.used_at else f"until {self.expires_at:%H:%M:%S}"
        return f"sign-in link for {self.user} ({state})"


class MachineToken(AbstractAuthToken):
    """A token of a worker, a gateway or a script: `verbs` it may do (comma-separated), on one instance or (blank) all.

    `user` made it. Only its digest is kept; a revoked one stays, for the record.
    """

    name = models.CharField(max_length=100)
    instance = models.CharField(max_length=100, default="", blank=True)
    verbs = models.CharField(max_length=200)
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_by = models.CharField(max_length=150, default="", blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        app_label = "controlplane"

    def __str__(self) -> str:
        return f"{self.name} ({self.token_key}…)"


class Attempt(models.Model):
    """Who tried to change what, from where, why, and whether it was allowed. Appended by the shells; never edited."""

    at = models.FloatField(db_index=True)
    actor = models.CharField(max_length=150)
    via = models.CharField(max_length=10)
    source = models.CharField(max_length=64, default="")
    action = models.CharField(max_length=60)
    target = models.CharField(max_length=200, default="")
    reason = models.TextField(default="")
    allowed = models.BooleanField()
    status = models.PositiveSmallIntegerField(default=0)
    outcome = models.TextField(default="")
    request_id = models.CharField(max_length=64, default="")


class IdempotentRequest(models.Model):
    """An answer kept for whoever sends the same Idempotency-Key again. `status` 0: still in flight."""

    actor = models.CharField(max_length=150)
    key = models.CharField(max_length=128)
    digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(default=0)
    headers = models.TextField(default="{}")
    body = models.TextField(default="")
    at = models.FloatField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["actor", "key"], name="idempotency_key")]
