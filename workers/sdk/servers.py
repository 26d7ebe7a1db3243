"""Where a worker's control plane is, which instance it is about, and the token that opens it to this worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from controlplane.domain.errors import Refused
from controlplane.domain.names import check_name

from .errors import BadAddress, Fault, Garbled, Refusal, refused
from .exchange import Answer
from .places import API_PORT, ENGINE_INFO_PORT, Place, read_place
from .tokens import Token
from .tokens import checked as checked_token

_LONGEST_SAID = 500
JSON_BODY = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A control plane, or a plain SGLang bootstrap server: `kv` is all that is always there.

    `engine` is its engine-info server, `api` its API (None: not used). `instance` is the name under which this worker's
    instance is known there; one listener may serve many. `token` is sent in `X-PD-Token`, to these three servers only.
    """

    kv: Place
    engine: Place
    api: Place | None = None
    instance: str | None = None
    token: Token | None = field(default=None, repr=False)

    @classmethod
    def at(
        cls,
        kv: str,
        *,
        engine: str | None = None,
        api: str | None = None,
        instance: str | None = None,
        token: Token | None = None,
    ) -> ControlPlane:
        """From addresses as people write them. Without `engine` it is on the same host at 6789, as SGLang's is; behind a
        URL with a path (`http://cp:8000/i/NAME`) both wires are one.

        Raises BadAddress.
        """
        place = read_place(kv)
        if engine is not None:
            other = read_place(engine, default_port=ENGINE_INFO_PORT, what="the engine-info address")
        else:
            other = place if place.prefix else replace(place, port=ENGINE_INFO_PORT)
        name = instance if instance is not None else place.instance
        try:
            name = check_name(name) if name is not None else None
        except Refused as problem:
            raise BadAddress(problem.sentence) from None
        if isinstance(token, str):
            checked_token(token)
        return cls(
            replace(place, instance=None),
            replace(other, instance=None),
            read_place(api, default_port=API_PORT, what="the address of the API") if api is not None else None,
            name,
            token,
        )

    def headers(self, **more: str) -> dict[str, str]:
        """What goes with every request to this control plane."""
        sent = dict(more)
        if self.instance is not None:
            sent["x-pd-instance"] = self.instance
        if self.token is not None:
            sent["x-pd-token"] = self.token if isinstance(self.token, str) else self.token.current()
        return sent

    def serves(self, place: Place) -> bool:
        """Whether `place` (of a request, say) is this control plane's own KV server."""
        return (place.host, place.port, place.prefix) == (self.kv.host, self.kv.port, self.kv.prefix)

    def asked_about(self, place: Place) -> ControlPlane:
        """As whom to ask `place` about a prefill: with our token if it is this control plane's, as a stranger if not.

        A request may name any server: no token goes to one that was not configured.
        """
        if self.serves(place):
            return replace(self, instance=place.instance)
        return ControlPlane(replace(place, instance=None), replace(place, port=ENGINE_INFO_PORT), None, place.instance)


def checked(place: Place, answer: Answer) -> Answer:
    """The answer when it is 200 (or 304), else the error that it is."""
    if answer.status in (200, 304):
        return answer
    raise refusal_in(place, answer)


def refusal_in(place: Place, answer: Answer) -> Refusal:
    """The refusal that an answer is: a problem document, FastAPI's `detail`, or text."""
    said, code = answer.body[: 64 * 1024].decode("utf-8", "replace").strip(), ""
    faults: tuple[Fault, ...] = ()
    if answer.body[:1] == b"{":
        try:
            told = msgspec.json.decode(answer.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            told = {}
        if isinstance(told, dict) and "detail" in told:
            detail = told["detail"]
            said = detail if isinstance(detail, str) else msgspec.json.encode(detail).decode()
            code = str(told.get("code") or "")
            faults = tuple(_faults(told.get("errors")))
    if "<" in said[:20]:
        said = "a page, so it is no control plane that answers there"
    said = "".join(c if c.isprintable() else " " for c in said[:_LONGEST_SAID]) or "nothing more"
    if 300 <= answer.status < 400:
        said = f"it sends elsewhere, to {answer.headers.get('location', '')[:200]!r}; give that address"
    return refused(str(place), answer.status, said, code[:60], _retry_after(answer.headers), faults)


def _faults(told: Any) -> Iterator[Fault]:
    for one in told if isinstance(told, list) else ():
        pointer, code = (one.get("pointer"), one.get("code")) if isinstance(one, dict) else (None, None)
        if isinstance(pointer, str) and isinstance(code, str):
            yield Fault(pointer, code)


def decoded(place: Place, answer: Answer, decoder: msgspec.json.Decoder[Any]) -> Any:
    """The body as the decoder's type. Raises Garbled with the field that is wrong."""
    try:
        return decoder.decode(answer.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise Garbled(str(place), str(problem)[:300]) from None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    text = headers.get("retry-after", "")
    return float(text) if text.isdigit() and len(text) < 6 else None
