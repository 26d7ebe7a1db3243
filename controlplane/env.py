"""Read the environment: typed values, or a sentence that names the variable."""

import ipaddress
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from django.core.exceptions import ImproperlyConfigured

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Every variable that was asked for, so that a misspelt one can be pointed out (checks.py).
known: set[str] = set()


class BadSetting(ImproperlyConfigured):
    """A variable whose value cannot be used."""

    def __init__(self, name: str, complaint: str) -> None:
        super().__init__(f"{name}: {complaint}")


def load_file(path: Path) -> None:
    """Take what `.env` sets, unless the environment sets it already."""
    from dotenv import load_dotenv

    if path.is_file():
        load_dotenv(path, override=False)


def text(name: str, default: str = "") -> str:
    known.add(name)
    value = os.environ.get(name, "").strip()
    return value or default


def integer(name: str, default: int, *, at_least: int = 0, at_most: int | None = None) -> int:
    raw = text(name)
    if not raw:
        return default
    try:
        value = int(raw)
    except ValueError:
        raise BadSetting(name, f"must be a whole number, not {raw!r}") from None
    _within(name, value, at_least, at_most)
    return value


def number(name: str, default: float, *, at_least: float = 0.0, at_most: float | None = None) -> float:
    raw = text(name)
    if not raw:
        return default
    try:
        value = float(raw)
    except ValueError:
        raise BadSetting(name, f"must be a number, not {raw!r}") from None
    _within(name, value, at_least, at_most)
    return value


def _within(name: str, value: float, at_least: float, at_most: float | None) -> None:
    # Written so that NaN, which compares as false with everything, is refused too.
    if not value >= at_least:
        raise BadSetting(name, f"must be at least {at_least}, not {value}")
    if at_most is not None and not value <= at_most:
        raise BadSetting(name, f"must be at most {at_most}, not {value}")


def port(name: str, default: int) -> int:
    """A TCP port; 0 lets the system choose a free one."""
    return integer(name, default, at_least=0, at_most=65535)


def port_if_any(name: str) -> int | None:
    """A TCP port, or None when none is set: then nobody listens."""
    return port(name, 0) if text(name) else None


def flag(name: str, default: bool = False) -> bool:
    raw = text(name).lower()
    if not raw:
        return default
    if raw in ("1", "true", "yes", "on"):
        return True
    if raw in ("0", "false", "no", "off"):
        return False
    raise BadSetting(name, f"must be true or false, not {raw!r}")


def choice(name: str, default: str, *, among: Sequence[str]) -> str:
    value = text(name, default)
    for allowed in among:
        if value.upper() == allowed.upper():
            return allowed
    raise BadSetting(name, f"must be one of {', '.join(among)}, not {value!r}")


def listing(name: str, default: Sequence[str] = ()) -> list[str]:
    """Values separated by commas."""
    items = [item.strip() for item in text(name).split(",")]
    return [item for item in items if item] or list(default)


def hosts(name: str, default: Sequence[str]) -> list[str]:
    """Names and addresses as a Host header is compared with them. One with a scheme or a port would never match."""
    found = listing(name, default)
    for item in found:
        bare = item[1:-1] if item.startswith("[") and item.endswith("]") else item
        if "/" in item or "]" in bare or (":" in item and bare is item):
            raise BadSetting(name, f"takes names without scheme and port, IPv6 in brackets, not {item!r}")
    return found


def networks(name: str, default: Sequence[str]) -> tuple[Network, ...]:
    """Networks in CIDR notation, separated by commas; `none` is the empty set."""
    if text(name).lower() == "none":
        return ()
    found: list[Network] = []
    for item in listing(name, default):
        try:
            found.append(ipaddress.ip_network(item))
        except ValueError as problem:
            raise BadSetting(name, f"{item!r} is not a network such as 10.0.0.0/8 ({problem})") from None
    return tuple(found)


def directory(name: str, default: Path, *, relative_to: Path) -> Path:
    """A directory that exists and can be written when this returns."""
    path = (relative_to / (text(name) or default)).resolve()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise BadSetting(name, f"the directory {path} cannot be created ({problem.strerror})") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise BadSetting(name, f"the directory {path} cannot be written by this user")
    return path


def secret_key(data_dir: Path) -> str:
    """SECRET_KEY, else what SECRET_KEY_FILE holds, else a key made once and kept in the data directory."""
    given = text("SECRET_KEY")
    if given:
        return given
    file = text("SECRET_KEY_FILE")
    if file:
        try:
            kept = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as problem:
            raise BadSetting("SECRET_KEY_FILE", f"{file} cannot be read ({problem})") from None
        if not kept:
            raise BadSetting("SECRET_KEY_FILE", f"{file} is empty")
        return kept
    return _kept_secret(data_dir / "secret_key")


def _kept_secret(path: Path) -> str:
    if not path.exists():
        draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            out.write(secrets.token_urlsafe(50) + "\n")
            out.flush()
            os.fsync(out.fileno())
        try:
            # A link, not a rename: of several processes that start together, the first one's key stays.
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    kept = path.read_text(encoding="utf-8").strip()
    if not kept:
        raise BadSetting("PDCP_DATA_DIR", f"{path} is empty; delete it, or set SECRET_KEY")
    return kept


def redis_url(name: str, *, announced_in: Path) -> str:
    """The given URL, else that of the embedded Redis which runs in this data directory, else nothing."""
    given = text(name)
    if not given:
        try:
            announced = announced_in.read_text(encoding="utf-8").strip()
        except OSError:
            return ""
        # After a kill -9 the note may outlive the server it speaks of.
        return announced if Path(urlsplit(announced).path).is_socket() else ""
    if urlsplit(given).scheme not in ("redis", "rediss", "unix"):
        raise BadSetting(name, "must start with redis://, rediss:// or unix://")
    return given


def web_url(name: str) -> str:
    """An http or https URL that we may ask, or nothing. It may hold a secret in its path: no complaint repeats it."""
    given = text(name)
    if not given:
        return ""
    try:
        parts = urlsplit(given)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole or not given.isascii() or not given.isprintable() or " " in given:
        raise BadSetting(name, "must be a URL such as https://alerts.example.org/hook")
    if "@" in parts.netloc:
        raise BadSetting(name, "must not hold a user or a password")
    return given


def broker_url(redis: str) -> str:
    """
    The same Redis in Celery's spelling.

    >>> broker_url("unix:///run/x/redis.sock?db=1")
    'redis+socket:///run/x/redis.sock?virtual_host=1'
    """
    parts = urlsplit(redis)
    if parts.scheme != "unix":
        return redis or "memory://"
    database = parse_qs(parts.query).get("db", ["0"])[0]
    return f"redis+socket://{parts.path}?virtual_host={database}"
