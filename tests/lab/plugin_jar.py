"""Builds the worker's jar from its Java source: the same entries on every machine.

The compiler is always the locked batch compiler, never a ``javac`` that happens to be there: two compilers make two jars.
Entries are sorted and dated alike.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

from connect_share.files import write_private_file
from connect_share.jar import JAVA_SOURCES, jar_path
from connect_share.worker_config.override_policy import POLICY_CLASS
from spark_jobs import command_line
from tests.lab.embedded.artifacts import ensure_artifacts
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.embedded.java_program import compile_java

OLDEST_KAFKA: Final = "2.8.2"
"""The sources compile against this version; the class files run on all later ones."""

_DATE: Final = (1980, 1, 1, 0, 0, 0)
_POLICY_KIND: Final = "org.apache.kafka.connect.connector.policy.ConnectorClientConfigOverridePolicy"
_REMEDY: Final = "build it with: make jar"


def build_jar(changes: Mapping[str, tuple[str, str]] | None = None) -> bytes:
    """Compile the plugin and give the jar's bytes.

    Args:
        changes: by the name of a source file, a text that is there once and what stands in its place: for a jar that is
            wrong on purpose.
    """
    kafka = ensure_artifacts(f"kafka-{OLDEST_KAFKA}")
    names = (f"kafka-clients-{OLDEST_KAFKA}", f"connect-api-{OLDEST_KAFKA}", "slf4j-api-*")
    libraries = [jar for name in names for jar in kafka.glob(f"{name}.jar")]
    number = version("connect-share")
    with tempfile.TemporaryDirectory() as temporary:
        classes, changed = Path(temporary) / "classes", Path(temporary) / "sources"
        shutil.copytree(JAVA_SOURCES, changed)
        sources = sorted(changed.rglob("*.java"))
        for source in sources:
            old, new = (changes or {}).get(source.name, ("", ""))
            text = source.read_text(encoding="utf-8")
            if old and text.count(old) != 1:
                raise EmbeddedError(f"{source.name} does not have the text to change once")
            source.write_text(text.replace(old, new) if old else text, encoding="utf-8")
        compile_java(
            sources,
            classes,
            ":".join(map(str, libraries)),
            release="1.8",
            options=[
                "-g:lines,source",
                "-proc:none",
                "-failOnWarning",
                "-warn:unusedLocal,unusedPrivate,unusedImport,nullDereference,resource,fallthrough,raw,unchecked",
            ],
        )
        entries = {path.relative_to(classes).as_posix(): path.read_bytes() for path in classes.rglob("*.class")}
    entries["connectshare/version.properties"] = f"version={number}\n".encode()
    entries[f"META-INF/services/{_POLICY_KIND}"] = f"{POLICY_CLASS}\n".encode()
    manifest = (
        f"Manifest-Version: 1.0\r\nImplementation-Title: connect-share\r\nImplementation-Version: {number}\r\n\r\n"
    )
    return _archive({"META-INF/MANIFEST.MF": manifest.encode(), **dict(sorted(entries.items()))})


def _archive(entries: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    # Compressed, which halves it. One zlib always gives the same bytes, two may not, so entries are what is compared.
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in entries.items():
            entry = zipfile.ZipInfo(name, _DATE)
            entry.create_system = 3  # the same on every system
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _entries(jar: bytes) -> list[tuple[str, bytes]]:
    """Return names and contents, in their order."""
    with zipfile.ZipFile(io.BytesIO(jar)) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def _body(options: argparse.Namespace) -> int:
    built, path = build_jar(), jar_path()
    if not options.check:
        # Renamed into place: a worker that runs with the old one keeps it.
        write_private_file(path, built, mode=0o644)
    elif not path.exists() or _entries(path.read_bytes()) != _entries(built):
        print(f"{path.name} is not what its source gives; {_REMEDY}", file=sys.stderr)
        return 1
    print(f"{path.name}: {len(built)} bytes, sha256 {hashlib.sha256(built).hexdigest()}")
    return 0


def main(argv: Sequence[str]) -> int:
    """Build the jar in its place, or compare what is there (``--check``: 1 if it is another one)."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.plugin_jar", description=__doc__)
    parser.add_argument("--check", action="store_true", help="build, compare with the jar that is there, write nothing")
    return command_line.run(parser.parse_args(argv), _body)


if __name__ == "__main__":
    command_line.exit_with(main)
