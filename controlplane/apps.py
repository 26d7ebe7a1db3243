"""The Django application `controlplane`."""

from django.apps import AppConfig


class ControlPlaneConfig(AppConfig):
    name = "controlplane"
    label = "controlplane"
    verbose_name = "PD control plane"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Here and not in controlplane/__init__.py, so that a GPU host can import controlplane.domain alone.
        from controlplane import celery, checks
        from controlplane.access import signals

        celery.app.set_default()
        checks.register()
        signals.connect()
