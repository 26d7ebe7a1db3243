"""Sign-in links: a way into the admin for whoever sits at the terminal that started the control plane."""

from django.conf import settings
from django.db import models


class SignInLink(models.Model):
    """One link, usable once before `expires_at`. Its token is shown once; only the SHA-256 of it is kept."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)
    used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        app_label = "controlplane"

    def __str__(self) -> str:
        state = "used" if self.used_at else f"until {self.expires_at:%H:%M:%S}"
        return f"sign-in link for {self.user} ({state})"
