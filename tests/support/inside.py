"""Django in the test process itself, on databases of its own that vanish with it. Import it before anything with models."""

import atexit
import os
import shutil
import tempfile

# Whatever the shell has set must not lead a test to a real database.
for name in list(os.environ):
    if name.startswith("PDCP_") or name in ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "SECRET_KEY_FILE"):
        del os.environ[name]
_directory = tempfile.mkdtemp(prefix="pd-test-")
atexit.register(shutil.rmtree, _directory, ignore_errors=True)
os.environ.update(DJANGO_SETTINGS_MODULE="controlplane.settings", PDCP_DATA_DIR=_directory, PDCP_ENV_FILE="/dev/null")

import django  # noqa: E402

django.setup()

from servestatic.middleware import ServeStaticMiddleware  # noqa: E402

_look = ServeStaticMiddleware.add_files_from_finders
_seen: dict[str, "ServeStaticMiddleware"] = {}


def _look_once(self: ServeStaticMiddleware) -> None:
    """Each test client has a middleware of its own, which looks at every static file: a tenth of a second. They do not change."""
    if (first := _seen.get(self.static_prefix)) is None:
        _look(self)
        _seen[self.static_prefix] = self
        return
    self.files.update(first.files)
    self.directories.extend(one for one in first.directories if one not in self.directories)


ServeStaticMiddleware.add_files_from_finders = _look_once
