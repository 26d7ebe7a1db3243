"""Settings, all from the environment: one line a knob, its unit in its name, its meaning in .env.example."""

import socket
from pathlib import Path
from typing import Any

from csp.constants import NONE, SELF

from controlplane import databases, env, logs

BASE_DIR = Path(__file__).resolve().parent.parent
env.load_file(Path(env.text("PDCP_ENV_FILE", str(BASE_DIR / ".env"))))

# --- Where things are ---------------------------------------------------------------------------------------
PDCP_DATA_DIR = env.directory("PDCP_DATA_DIR", Path("var"), relative_to=BASE_DIR)
PDCP_BOOTSTRAP_HOST = env.text("PDCP_BOOTSTRAP_HOST", "127.0.0.1")
PDCP_KV_PORT = env.port("PDCP_KV_PORT", 8998)
PDCP_ENGINE_INFO_PORT = env.port("PDCP_ENGINE_INFO_PORT", 6789)
PDCP_WEB_HOST = env.text("PDCP_WEB_HOST", "127.0.0.1")
PDCP_WEB_PORT = env.port("PDCP_WEB_PORT", 8000)

# --- Bootstrap: who may write, what is probed, what is kept and for how long --------------------------------
PDCP_REGISTER_NETWORKS = env.networks("PDCP_REGISTER_NETWORKS", ["0.0.0.0/0", "::/0"])
PDCP_REGISTER_BY = env.choice("PDCP_REGISTER_BY", "network", among=["network", "token", "either", "both"])
PDCP_READ_NETWORKS = env.networks("PDCP_READ_NETWORKS", ["0.0.0.0/0", "::/0"])
PDCP_ENGINE_INFO_BY = env.choice("PDCP_ENGINE_INFO_BY", "network", among=["network", "token", "either", "both"])
PDCP_PROBE_NETWORKS = env.networks(
    "PDCP_PROBE_NETWORKS",
    ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "fc00::/7", "::1/128"],
)
PDCP_PROBE_INTERVAL_SECONDS = env.number("PDCP_PROBE_INTERVAL_SECONDS", 1.0)
PDCP_PROBE_TIMEOUT_SECONDS = env.number("PDCP_PROBE_TIMEOUT_SECONDS", 1.0, at_least=0.05, at_most=60)
PDCP_HEALTH_INTERVAL_SECONDS = env.number("PDCP_HEALTH_INTERVAL_SECONDS", 1.0, at_most=3600)
PDCP_HEALTH_TIMEOUT_SECONDS = env.number("PDCP_HEALTH_TIMEOUT_SECONDS", 5.0, at_least=0.05, at_most=25)
PDCP_HEALTH_FAIL_AFTER = env.integer("PDCP_HEALTH_FAIL_AFTER", 3, at_least=1, at_most=100)
PDCP_HEALTH_PASS_AFTER = env.integer("PDCP_HEALTH_PASS_AFTER", 2, at_least=1, at_most=100)
PDCP_HEALTH_LOST_SECONDS = env.number("PDCP_HEALTH_LOST_SECONDS", 30.0, at_least=1)
PDCP_OBSERVE_FILE = env.text("PDCP_OBSERVE_FILE")
PDCP_LEASE_SECONDS = env.number("PDCP_LEASE_SECONDS", 3.0, at_least=0.5, at_most=60)
PDCP_STOP_DELAY_SECONDS = env.number("PDCP_STOP_DELAY_SECONDS", 0.0, at_least=0, at_most=600)
PDCP_ROOM_TTL_SECONDS = env.number("PDCP_ROOM_TTL_SECONDS", 360.0, at_least=1)
PDCP_ROOM_LIMIT = env.integer("PDCP_ROOM_LIMIT", 2_000_000, at_least=1)
PDCP_ROOM_TOMBSTONE_SECONDS = env.number("PDCP_ROOM_TOMBSTONE_SECONDS", 120.0, at_most=3600)
PDCP_ROOM_TOMBSTONE_LIMIT = env.integer("PDCP_ROOM_TOMBSTONE_LIMIT", 100_000, at_most=10_000_000)
PDCP_KV_BODY_LIMIT_BYTES = env.integer("PDCP_KV_BODY_LIMIT_BYTES", 4 * 2**20, at_least=1024)
PDCP_ENGINE_BODY_LIMIT_BYTES = env.integer("PDCP_ENGINE_BODY_LIMIT_BYTES", 16 * 2**20, at_least=1024)
PDCP_UPLOAD_BUDGET_BYTES = env.integer("PDCP_UPLOAD_BUDGET_BYTES", 256 * 2**20, at_least=1024)
if max(PDCP_KV_BODY_LIMIT_BYTES, PDCP_ENGINE_BODY_LIMIT_BYTES) > PDCP_UPLOAD_BUDGET_BYTES:
    raise env.BadSetting("PDCP_UPLOAD_BUDGET_BYTES", "must hold at least one body of the largest size allowed")

# --- What is kept for how long: 0 for ever ------------------------------------------------------------------
PDCP_KEEP_EVENTS_DAYS = env.number("PDCP_KEEP_EVENTS_DAYS", 90.0)
PDCP_KEEP_ATTEMPTS_DAYS = env.number("PDCP_KEEP_ATTEMPTS_DAYS", 90.0)
PDCP_KEEP_OPERATIONS_DAYS = env.number("PDCP_KEEP_OPERATIONS_DAYS", 30.0)
PDCP_KEEP_ENDED_LAUNCHES_DAYS = env.number("PDCP_KEEP_ENDED_LAUNCHES_DAYS", 1.0)
PDCP_KEEP_ARCHIVE_DAYS = env.number("PDCP_KEEP_ARCHIVE_DAYS", 90.0)
PDCP_KEEP_LEFTOVERS_DAYS = env.number("PDCP_KEEP_LEFTOVERS_DAYS", 1.0)
PDCP_KEEP_REPORTS_DAYS = env.number("PDCP_KEEP_REPORTS_DAYS", 1.0)
PDCP_KEEP_OUTCOMES_DAYS = env.number("PDCP_KEEP_OUTCOMES_DAYS", 7.0)
PDCP_KEEP_SAMPLES_DAYS = env.number("PDCP_KEEP_SAMPLES_DAYS", 1.0)
PDCP_KEEP_EVIDENCE_DAYS = env.number("PDCP_KEEP_EVIDENCE_DAYS", 1.0)
PDCP_EVIDENCE_LIMIT = env.integer("PDCP_EVIDENCE_LIMIT", 1_000_000, at_least=1000)
PDCP_EVIDENCE_SHARE = env.number("PDCP_EVIDENCE_SHARE", 1.0, at_most=1)

# --- Databases ----------------------------------------------------------------------------------------------
PDCP_SQLITE_SYNCHRONOUS = env.choice("PDCP_SQLITE_SYNCHRONOUS", "NORMAL", among=["NORMAL", "FULL"])
DATABASES: dict[str, dict[str, Any]] = databases.from_url(
    env.text("DATABASE_URL"), data_dir=PDCP_DATA_DIR, synchronous=PDCP_SQLITE_SYNCHRONOUS
)
DATABASE_ROUTERS = ["controlplane.databases.TrafficRouter"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- Redis: given, or the embedded one that `manage.py up` runs in this data directory ----------------------
REDIS_URL = env.redis_url("REDIS_URL", announced_in=PDCP_DATA_DIR / "redis-url")
CELERY_BROKER_URL = env.broker_url(REDIS_URL)
# What a worker that was killed had not acknowledged comes again after so long, and has expired by then.
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "global_keyprefix": "pdcp:",
    "visibility_timeout": 600,
    "socket_connect_timeout": 5,
    # A Redis whose host is gone, or behind a cut cable, closes nothing: whoever only waits for it would wait for hours.
    "socket_timeout": 10,
    "socket_keepalive": True,
    "socket_keepalive_options": {
        getattr(socket, name): value
        for name, value in {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}.items()
        if hasattr(socket, name)
    },
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_TASK_IGNORE_RESULT = True
# Of pools of processes alone: under threads each round is bounded by its own time-outs, and tasks.keeper looks after it.
CELERY_TASK_TIME_LIMIT = 60
CELERY_WORKER_CONSUMER = "controlplane.tasks.keeper:PatientConsumer"
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_REDIRECT_STDOUTS = False
CELERY_BEAT_SCHEDULER = "controlplane.tasks.beat:Clock"
CLOCKWORK: dict[str, tuple[str, float]] = {
    # What is done, by which task, and every how many seconds.
    "read the file of observed instances": ("observing.read_observe_file", 5.0),
    "delete spent sign-in links": ("housekeeping.delete_spent_sign_in_links", 300.0),
    "check drains": ("drains.check_drains", 1.0),
    "probe engines": ("health.probe_engines", 1.0),
    "reconcile routers": ("routers.reconcile_routers", 1.0),
    "forget old reports": ("gateways.forget_old_reports", 300.0),
    "delete old attempts and sessions": ("housekeeping.delete_old_attempts_and_sessions", 3600.0),
    "trim expired rooms": ("rooms.trim_expired_rooms", 10.0),
    "compact the ledger": ("retention.compact_ledger", 30.0),
    "archive ended launches": ("retention.archive_ended_launches", 60.0),
    "sweep leftovers": ("retention.sweep_leftovers", 300.0),
    "watch for alarms": ("alarms.watch_alarms", 3.0),
    "tell the alarm webhook": ("alarms.send_alarm_notices", 2.0),
    "forget old alarms": ("alarms.forget_old_alarms", 3600.0),
    "forget old samples": ("samples.forget_old_samples", 300.0),
}
# Whoever takes a message compares its end with a clock of its own: where hosts' clocks differ, one that lasts for a second
# would always be over. It need not end sooner, for what comes late is left out where rounds are claimed (tasks.turns).
MESSAGES_LAST_SECONDS = 300.0
CELERY_BEAT_SCHEDULE = {
    title: {
        "task": f"controlplane.tasks.{task}",
        "schedule": seconds,
        "options": {"expires": max(seconds, MESSAGES_LAST_SECONDS)},
    }
    for title, (task, seconds) in CLOCKWORK.items()
}
CHANNEL_LAYERS = {
    "default": (
        {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [REDIS_URL], "prefix": "pdcp"},
        }
        if REDIS_URL
        else {"BACKEND": "channels.layers.InMemoryChannelLayer"}
    )
}
CACHES = {
    "default": (
        {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": REDIS_URL,
            "KEY_PREFIX": "pdcp",
            "OPTIONS": {"serializer": "controlplane.caching.JsonSerializer"},
        }
        if REDIS_URL
        else {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    )
}

# --- API ----------------------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "controlplane.api.authentication.ByToken",
        "controlplane.api.authentication.BySession",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["controlplane.api.permissions.ByVerb"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "controlplane.api.schema.ApiSchema",
    "DEFAULT_METADATA_CLASS": None,
    "EXCEPTION_HANDLER": "controlplane.api.errors.handle",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "PD Control Plane",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "POSTPROCESSING_HOOKS": ["controlplane.api.schema.with_problem"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}

# --- Alarms -------------------------------------------------------------------------------------------------
PDCP_ALARM_WEBHOOK_URL = env.web_url("PDCP_ALARM_WEBHOOK_URL")
PDCP_ALARM_WEBHOOK_SECRET = env.text("PDCP_ALARM_WEBHOOK_SECRET")

# --- Metrics: an address of each process's own, opened where a port is set; the web port has them for token holders
PDCP_METRICS_HOST = env.text("PDCP_METRICS_HOST", "127.0.0.1")
PDCP_METRICS_BOOTSTRAP_PORT = env.port_if_any("PDCP_METRICS_BOOTSTRAP_PORT")
PDCP_METRICS_WEB_PORT = env.port_if_any("PDCP_METRICS_WEB_PORT")
PDCP_METRICS_CELERY_PORT = env.port_if_any("PDCP_METRICS_CELERY_PORT")
PDCP_METRICS_TOKEN = env.text("PDCP_METRICS_TOKEN")
_METRICS = (PDCP_METRICS_BOOTSTRAP_PORT, PDCP_METRICS_WEB_PORT, PDCP_METRICS_CELERY_PORT)
PDCP_METRICS_PORTS = tuple(port for port in _METRICS if port)

# --- Web ----------------------------------------------------------------------------------------------------
PDCP_SOCKET_LIMIT = env.integer("PDCP_SOCKET_LIMIT", 1000, at_least=1)
PDCP_SITE_KIND = env.choice("PDCP_SITE_KIND", "dev", among=["dev", "staging", "production"])
PDCP_SITE_NAME = env.text("PDCP_SITE_NAME")
DEBUG = env.flag("DEBUG")
SECRET_KEY = env.secret_key(PDCP_DATA_DIR)
SECRET_KEY_FALLBACKS = env.listing("SECRET_KEY_FALLBACKS")
ALLOWED_HOSTS = env.hosts("ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.listing("CSRF_TRUSTED_ORIGINS")
CSRF_FAILURE_VIEW = "dashboard.errors.csrf_failed"
ROOT_URLCONF = "controlplane.urls"
ASGI_APPLICATION = "controlplane.asgi.application"
AUTHENTICATION_BACKENDS = ["controlplane.access.backends.LimitedPasswords"]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "login"
# With an https origin pages are reached through TLS, and the browser must not send cookies over plain HTTP; a laptop on
# loopback has no TLS.
TLS = any(url.startswith("https://") for url in CSRF_TRUSTED_ORIGINS)
PDCP_HSTS_SECONDS = env.integer("PDCP_HSTS_SECONDS", 0, at_least=0)
SESSION_COOKIE_AGE = 12 * 3600
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = TLS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if TLS else None
SECURE_HSTS_SECONDS = PDCP_HSTS_SECONDS if TLS else 0
# The TLS proxy redirects people; machines inside the cluster use the API and the wires over plain HTTP (W008). HSTS is
# for this name alone (W005, W021); controlplane.W014 says when it is missing (W004).
SILENCED_SYSTEM_CHECKS = ["security.W004", "security.W005", "security.W008", "security.W021"]
X_FRAME_OPTIONS = "DENY"
KNOX_TOKEN_MODEL = "controlplane.MachineToken"
REST_KNOX = {"TOKEN_PREFIX": "pdcp_", "TOKEN_TTL": None, "AUTO_REFRESH": False}
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
    }
}

INSTALLED_APPS = [
    "controlplane.apps.ControlPlaneConfig",
    "dashboard.apps.DashboardConfig",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_structlog",
    "channels",
    "rest_framework",
    "knox",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "controlplane.web.hosts.Common",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_structlog.middlewares.RequestMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
STATIC_URL = "/static/"
STATIC_ROOT = PDCP_DATA_DIR / "static"
# Files are found where the apps keep them: no collectstatic step before the first page.
SERVESTATIC_USE_FINDERS = True

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"
USE_I18N = False

# --- Logs ---------------------------------------------------------------------------------------------------
LOG_LEVEL = env.choice("LOG_LEVEL", "INFO", among=["DEBUG", "INFO", "WARNING", "ERROR"])
LOG_FORMAT = env.choice("LOG_FORMAT", "console", among=["console", "json"])
LOGGING_CONFIG = None
logs.configure(level=LOG_LEVEL, form=LOG_FORMAT)
DJANGO_STRUCTLOG_CELERY_ENABLED = True
# The client's address as the server knows it: django-structlog would believe headers that anybody can send.
IPWARE_META_PRECEDENCE_ORDER = ["REMOTE_ADDR"]
