"""Logging for every process: JSON or console lines that workers can neither forge nor flood."""

import logging
import logging.config
import re
import time
from collections.abc import MutableMapping
from typing import Any

import structlog

from controlplane.floodgate import FloodGate

Event = MutableMapping[str, Any]

LONGEST_VALUE = 2_000
# Control characters (a newline starts a line that was never logged, ESC repaints a terminal), Unicode line
# ends, and the marks that reverse the direction of text.
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

# What opens a door, wherever somebody put it: a machine's token (its beginning says whose it is), and a sign-in link.
KEYS = re.compile(r"(pdcp_[0-9a-f]{10})[0-9a-f]{54}|(/sign-in/)[^/\s?#'\"]+")

TALKATIVE = (
    "uvicorn.access",
    "httpx",
    "httpcore",
    "asyncio",
    "django_structlog.middlewares.request",
    "celery.beat",
    "celery.worker.strategy",
    "celery.app.trace",
    "django_structlog.celery.receivers",
    "psycopg.pool",
)

gate = FloodGate()


def escape(text: str) -> str:
    r"""
    One safe line for any text.

    >>> escape("ok\nINFO all is well")
    'ok\\nINFO all is well'
    """
    text = KEYS.sub(lambda found: f"{found[1] or found[2]}…", text)
    if len(text) > LONGEST_VALUE:
        text = f"{text[:LONGEST_VALUE]}… ({len(text)} characters)"
    return UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def _harmless(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {escape(str(key)): _harmless(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_harmless(item) for item in value]
    return escape(str(value))


def escape_values(_: Any, __: str, event: Event) -> Event:
    """Processor: no value and no key of an event spans lines or carries terminal commands."""
    # Underscored keys and the traceback are the logging machinery's own.
    kept = {key: value for key, value in event.items() if key.startswith("_") or key in ("exc_info", "exception")}
    return {escape(key): _harmless(value) for key, value in event.items() if key not in kept} | kept


def indent_traceback(_: Any, __: str, event: Event) -> Event:
    """Processor: a traceback keeps its lines, each marked, so that none of them can pass for an entry."""
    if "exception" in event:
        lines = str(event["exception"]).split("\n")
        event["exception"] = "\n".join(f"    | {escape(line)}" for line in lines)
    return event


def limit_sources(_: Any, __: str, event: Event) -> Event:
    """Processor: events that name a `source` (a peer's address) pass a gate by (source, event)."""
    # django-structlog binds the peer of a web request as `ip`.
    source = event.get("source") or event.get("ip")
    if source is None:
        return event
    verdict = gate.admit(str(source), str(event.get("event")), now=time.monotonic())
    if not verdict.admitted:
        raise structlog.DropEvent
    if verdict.suppressed:
        event["suppressed"] = verdict.suppressed
    return event


class LimitRefusals(logging.Filter):
    """Django has a line for every request that it refuses: those pass the gate too, by who asked."""

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith("django."):
            return True
        asked = getattr(getattr(record, "request", None), "META", {})
        kind = f"{record.name} {record.levelname}"
        verdict = gate.admit(str(asked.get("REMOTE_ADDR") or ""), kind, now=time.monotonic())
        if verdict.suppressed:
            record.msg, record.args = f"{record.getMessage()} ({verdict.suppressed} more were not written)", ()
        return verdict.admitted


def configure(*, level: str, form: str) -> None:
    """Route structlog and the standard library through the same processors to stderr."""
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        escape_values,
        indent_traceback,
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0, sort_keys=False)
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            limit_sources,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {
                "line": {
                    "()": structlog.stdlib.ProcessorFormatter,
                    "foreign_pre_chain": [structlog.contextvars.merge_contextvars, *shared],
                    "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
                }
            },
            "filters": {"refusals": {"()": LimitRefusals}},
            "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["refusals"]}},
            "root": {"handlers": ["stderr"], "level": level},
            # They speak of every request and every probe: only their warnings, unless one asks for all.
            "loggers": {name: {"level": "WARNING" if level == "INFO" else level} for name in TALKATIVE},
        }
    )
