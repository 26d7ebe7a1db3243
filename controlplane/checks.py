"""System checks: settings that are valid one by one and still cannot be meant together, or not where others reach them."""

import difflib
import ipaddress
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core import checks

from controlplane import env

EVERYWHERE = {ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")}


def register() -> None:
    checks.register(web_reachable_by_name)
    checks.register(no_misspelt_variable)
    unsafe = (
        open_doors,
        open_pages,
        believed_proxies,
        weak_secrets,
        open_redis,
        far_probes,
        unsigned_alarms,
        open_metrics,
    )
    for check in unsafe:
        checks.register(check, deploy=True)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def web_reachable_by_name(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    if is_loopback(settings.PDCP_WEB_HOST) or env.text("ALLOWED_HOSTS"):
        return []
    return [
        checks.Error(
            f"ALLOWED_HOSTS is not set, but PDCP_WEB_HOST={settings.PDCP_WEB_HOST} is open to others; "
            "every request from there would be refused.",
            hint="Set ALLOWED_HOSTS to the names people use, separated by commas.",
            id="controlplane.E001",
        )
    ]


def no_misspelt_variable(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    found: list[checks.CheckMessage] = []
    for name in sorted(os.environ):
        if name.startswith("PDCP_") and name not in env.known:
            near = difflib.get_close_matches(name, env.known, n=1, cutoff=0.8)
            # Only a near miss: tools around the control plane may have variables of their own.
            if near:
                hint = f"Did you mean {near[0]}?"
                found.append(checks.Warning(f"{name} is set, but nothing reads it.", hint=hint, id="controlplane.W001"))
    return found


def open_doors(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    """Who may use the bootstrap wires, where other hosts reach them: at their ports, or below /i/ of the web process."""
    direct = not is_loopback(settings.PDCP_BOOTSTRAP_HOST)
    if direct:
        return list(_open_doors(f"PDCP_BOOTSTRAP_HOST={settings.PDCP_BOOTSTRAP_HOST}", direct=True))
    if not is_loopback(settings.PDCP_WEB_HOST):
        return list(_open_doors(f"/i/NAME/… at PDCP_WEB_HOST={settings.PDCP_WEB_HOST}"))
    if any(url.startswith("https://") for url in settings.CSRF_TRUSTED_ORIGINS):
        return list(_open_doors("/i/NAME/… through the TLS proxy"))
    return []


def _open_doors(where: str, *, direct: bool = False) -> Iterator[checks.CheckMessage]:
    everybody_writes = EVERYWHERE & set(settings.PDCP_REGISTER_NETWORKS)
    if everybody_writes and settings.PDCP_REGISTER_BY in ("network", "either"):
        yield checks.Warning(
            f"Whoever reaches {where} may register ranks: PDCP_REGISTER_NETWORKS is the whole world"
            + (
                ", so PDCP_REGISTER_BY=either asks nobody for a token."
                if settings.PDCP_REGISTER_BY == "either"
                else "."
            ),
            hint="Set PDCP_REGISTER_NETWORKS to the workers' networks, or PDCP_REGISTER_BY to token or both.",
            id="controlplane.W010",
        )
    if EVERYWHERE & set(settings.PDCP_READ_NETWORKS):
        yield checks.Warning(
            f"Whoever reaches {where} may read where every rank listens.",
            hint="Set PDCP_READ_NETWORKS to the networks of decodes (and of the web process, which forwards for others).",
            id="controlplane.W011",
        )
    if direct and {settings.PDCP_REGISTER_BY, settings.PDCP_ENGINE_INFO_BY} != {"network"}:
        yield checks.Info(
            "Tokens cross the network to the bootstrap ports as plain HTTP.",
            hint="Keep those ports inside a network that you trust, and consider both instead of token.",
            id="controlplane.I001",
        )


def open_pages(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    """What the web process does where other hosts reach it. Behind a proxy on this host it listens on loopback."""
    found: list[checks.CheckMessage] = []
    tls = any(url.startswith("https://") for url in settings.CSRF_TRUSTED_ORIGINS)
    host = settings.PDCP_WEB_HOST
    if settings.DEBUG and (tls or not is_loopback(host)):
        found.append(
            checks.Error(
                "DEBUG is on: pages that fail show settings and memory to whoever asks.",
                hint="Leave DEBUG out of the environment.",
                id="controlplane.E010",
            )
        )
    if any(name in ("*", ".") for name in settings.ALLOWED_HOSTS):
        found.append(
            checks.Warning(
                "ALLOWED_HOSTS=* takes any Host header: links and redirects can be made to lead elsewhere.",
                hint="Name the hosts that people use.",
                id="controlplane.W012",
            )
        )
    if not is_loopback(host) and not tls:
        found.append(
            checks.Warning(
                f"PDCP_WEB_HOST={host} is open to others, and no https origin is known: "
                "passwords, sessions and tokens cross the network in the clear.",
                hint="Put a TLS proxy in front and set CSRF_TRUSTED_ORIGINS=https://NAME; cookies are secure-only then.",
                id="controlplane.W013",
            )
        )
    if tls and not settings.SECURE_HSTS_SECONDS:
        found.append(
            checks.Warning(
                "Browsers are not told to stay with https (HSTS).",
                hint="Set PDCP_HSTS_SECONDS, to 3600 at first, to 31536000 when all is well.",
                id="controlplane.W014",
            )
        )
    return found


def believed_proxies(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    """Whose X-Forwarded-For counts. The address of a visitor limits sign-ins, stands in the audit and opens /i/NAME/…."""
    if is_loopback(settings.PDCP_WEB_HOST):
        return []
    believed = os.environ.get("FORWARDED_ALLOW_IPS", "").strip()
    if believed == "*":
        return [
            checks.Warning(
                "FORWARDED_ALLOW_IPS=* believes everybody: whoever reaches the web port is whatever address they say.",
                hint="Name the addresses of the TLS proxy.",
                id="controlplane.W021",
            )
        ]
    if not believed and any(url.startswith("https://") for url in settings.CSRF_TRUSTED_ORIGINS):
        return [
            checks.Warning(
                "FORWARDED_ALLOW_IPS names no proxy: all visitors count as the TLS proxy's own address, for the limit of"
                " sign-ins, in the audit and for /i/NAME/….",
                hint="Set FORWARDED_ALLOW_IPS to the addresses of the TLS proxy, unless it runs on this host.",
                id="controlplane.W020",
            )
        ]
    return []


def weak_secrets(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    found: list[checks.CheckMessage] = []
    kept_here = not env.text("SECRET_KEY") and not env.text("SECRET_KEY_FILE")
    if kept_here and settings.DATABASES["default"]["ENGINE"].endswith("postgresql"):
        found.append(
            checks.Warning(
                "SECRET_KEY was made on this host, but the database is shared: on another host sessions would not hold, "
                "and stored keys of engines and routers could not be opened.",
                hint="Give every host the same SECRET_KEY or SECRET_KEY_FILE.",
                id="controlplane.W015",
            )
        )
    if len(settings.SECRET_KEY) < 32:
        found.append(
            checks.Error(
                f"SECRET_KEY has {len(settings.SECRET_KEY)} characters: sessions could be forged.",
                hint="Use 50 random ones: python -c 'import secrets; print(secrets.token_urlsafe(50))'",
                id="controlplane.E011",
            )
        )
    return found


def open_redis(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    """Whoever writes to Redis can run tasks and speak to every browser."""
    parts = urlsplit(settings.REDIS_URL)
    if parts.scheme not in ("redis", "rediss") or is_loopback(parts.hostname or "localhost"):
        return []
    if parts.password and parts.scheme == "rediss":
        return []
    lacks = "no password" if not parts.password else "no TLS"
    return [
        checks.Warning(
            f"REDIS_URL leads to another host with {lacks}: whoever reaches it can run tasks here.",
            hint="Use rediss://:PASSWORD@HOST, or a network that nobody else is in.",
            id="controlplane.W016",
        )
    ]


def far_probes(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    if not EVERYWHERE & set(settings.PDCP_PROBE_NETWORKS):
        return []
    return [
        checks.Warning(
            "PDCP_PROBE_NETWORKS is the whole world: whoever may register can have this host connect anywhere.",
            hint="Set it to the networks in which workers are.",
            id="controlplane.W017",
        )
    ]


def open_metrics(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    """The metrics of all processes, where other hosts reach them."""
    if not settings.PDCP_METRICS_PORTS or is_loopback(settings.PDCP_METRICS_HOST) or settings.PDCP_METRICS_TOKEN:
        return []
    return [
        checks.Warning(
            f"Whoever reaches PDCP_METRICS_HOST={settings.PDCP_METRICS_HOST} may read the names of instances and gateways.",
            hint="Set PDCP_METRICS_TOKEN, or keep those ports inside a network that only Prometheus is in.",
            id="controlplane.W019",
        )
    ]


def unsigned_alarms(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    parts = urlsplit(settings.PDCP_ALARM_WEBHOOK_URL)
    if not parts.scheme or settings.PDCP_ALARM_WEBHOOK_SECRET or is_loopback(parts.hostname or ""):
        return []
    return [
        checks.Warning(
            "Messages to PDCP_ALARM_WEBHOOK_URL are not signed: whoever reaches the receiver can raise and resolve alarms there.",
            hint="Set PDCP_ALARM_WEBHOOK_SECRET, and let the receiver check webhook-signature.",
            id="controlplane.W018",
        )
    ]
