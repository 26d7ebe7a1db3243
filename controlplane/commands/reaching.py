"""What may be said of where an instance is reached: a port, a DNS alias, its engine's URL. Refuses with sentences."""

from __future__ import annotations

from django.conf import settings

from controlplane.databases import FACTS
from controlplane.domain.addresses import bracketed, canonical_host, is_loopback, parse_ip
from controlplane.domain.errors import Refused
from controlplane.models import Instance
from controlplane.probes.outgoing import check_url
from controlplane.probes.urls import parse

OUR_PORTS = ("PDCP_KV_PORT", "PDCP_ENGINE_INFO_PORT", "PDCP_WEB_PORT")
MAX_KEY = 1000


def check_port(port: int | None) -> None:
    if port is None:
        return
    if not 1 <= port <= 65535:
        raise Refused(f"a port is between 1 and 65535, not {port}", code="malformed")
    for variable in OUR_PORTS:
        if port == getattr(settings, variable):
            raise Refused(f"port {port} is this control plane's own ({variable})", code="conflict")


def check_alias(alias: str | None) -> str | None:
    """The alias in its one form."""
    if alias is None:
        return None
    host = canonical_host(alias).rstrip(".")
    if parse_ip(host) is not None or is_loopback(host):
        raise Refused(
            f"the alias must be a DNS name of this instance alone, not {bracketed(host)}: an address, like localhost,"
            " means the listener and not an instance",
            code="malformed",
        )
    return host


def check_engine_url(url: str) -> str:
    """The URL in its one form; "" for none."""
    return check_url(url) if url else ""


def check_observed(role: str, url: str, info_url: str) -> dict[str, str]:
    """Where an observed instance is asked, in the form that is stored; "" for not at all."""
    if url and role == Instance.Role.SEED:
        raise Refused(
            "a seed has no ranks to be observed: give the URL of its engine-info server (observed_engine_info_url) alone",
            code="malformed",
        )
    return {
        "observed_url": check_url(url) if url else "",
        "observed_engine_info_url": check_url(info_url) if info_url else "",
    }


LIMITS = {"probe_seconds": (0.2, 3600.0), "fail_after": (1, 100), "pass_after": (1, 100)}
"""How often the engine of an instance is asked (seconds), and how many answers in a row are a verdict."""


def check_probing(**given: float | None) -> dict[str, float | None]:
    """As they are stored; None: what the settings say."""
    for name, value in given.items():
        least, most = LIMITS[name]
        if value is not None and not least <= value <= most:
            raise Refused(f"{name} is between {least:g} and {most:g}, not {value:g}", code="malformed")
    return given


def check_engine_key(key: str) -> str:
    """It becomes a header: one line of ASCII. Never repeated in a sentence."""
    if len(key) > MAX_KEY or not key.isascii() or (key and not key.isprintable()) or " " in key:
        raise Refused(f"an API key is at most {MAX_KEY} printable characters without spaces", code="malformed")
    return key


def check_key_stays(what: str, key: str, *, before: str, after: str) -> None:
    """Refuse to take a stored key to another server: who may say where that is could read it there, and nowhere else."""
    if key and after and (not before or _server(before) != _server(after)):
        raise Refused(
            f"{what} was not given for {after}, and is not sent there: give it again with the new address, or an empty"
            " one",
            code="conflict",
        )


def _server(url: str) -> tuple[str, str, int]:
    target = parse(url)
    return target.scheme, target.host, target.port


def check_free(name: str, port: int | None, alias: str | None) -> tuple[str, ...]:
    """Refuse what another instance has; advise where two ports could be confused."""
    others = Instance.objects.using(FACTS).exclude(name=name)
    taken: dict[int, str] = {}
    if port is not None:
        taken = {other: whose for other, whose in others.values_list("own_port", "name") if other is not None}
    if port in taken:
        raise Refused(f"port {port} belongs to {taken[port]}", code="conflict")
    if alias is not None:
        holder = others.filter(host_alias=alias).values_list("name", flat=True).first()
        if holder is not None:
            raise Refused(f"the name {alias} belongs to {holder}", code="conflict")
    return _confusable(port, taken) if port is not None else ()


def _confusable(port: int, taken: dict[int, str]) -> tuple[str, ...]:
    """SGLang's decodes clear what they cached by the first characters of `host:port`: 899 would clear 8998 as well."""
    ours = {getattr(settings, variable): variable for variable in OUR_PORTS[:1]}
    alike = [
        f"{other} ({whose})"
        for other, whose in sorted({**taken, **ours}.items())
        if str(other).startswith(str(port)) or str(port).startswith(str(other))
    ]
    if not alike:
        return ()
    return (
        f"port {port} and {', '.join(alike[:3])} begin alike: a decode that drops one from its cache drops the other"
        " as well; ports with the same number of digits never do that",
    )
