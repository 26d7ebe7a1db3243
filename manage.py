#!/usr/bin/env python
"""Entry point of every command: `manage.py up`, `bootstrap`, `web`, `migrate_all`, …"""

import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as refusal:
        # A wrong variable is the operator's to correct: one sentence helps, a traceback does not.
        sys.exit(_fail(str(refusal)))


def _fail(sentence: str) -> int:
    print(f"error: {sentence}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
