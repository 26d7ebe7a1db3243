"""The ASGI application of the web process: Django and the live stream, behind the thin forwards of the bootstrap wires."""

import os
from typing import Any, cast

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

django = get_asgi_application()

# Only now: they read settings and models.
from controlplane.api.bounds import bounded  # noqa: E402
from controlplane.live.routing import websockets  # noqa: E402
from controlplane.web.forwards import in_front_of  # noqa: E402
from controlplane.web.measured import measured  # noqa: E402

# In front, not in urls.py: any Host header is right on these paths, and Django's middleware would refuse it first.
behind = cast(Any, ProtocolTypeRouter({"http": bounded(cast(Any, django)), "websocket": websockets}))
application = measured(cast(Any, in_front_of(behind)))
