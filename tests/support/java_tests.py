"""Java programs of tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

from connect_share.jar import jar_path
from tests.lab.embedded.artifacts import class_path, ensure_artifacts
from tests.lab.embedded.broker import DEFAULT_VERSION
from tests.lab.embedded.java_program import compiled
from tests.lab.embedded.jvm import QUICK, java_arguments, write_log_settings

_RUN_S = 900


def run_java(
    classes: Path,
    main_class: str,
    *,
    folder: Path,
    given: str,
    options: tuple[str, ...] = (),
    arguments: tuple[str, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a program on Kafka and our jar; it logs nothing.

    Args:
        classes: folder of :func:`classes_of`.
        main_class: of the program.
        folder: for its log settings.
        given: on its standard input.
        options: for the JVM.
        arguments: of the program.
    """
    command = java_arguments(
        ensure_artifacts(f"kafka-{DEFAULT_VERSION}"),
        main_class,
        list(arguments),
        options=(*QUICK, *options),
        log_settings=write_log_settings(folder, "off"),
        more_classes=(classes, jar_path()),
    )
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=_RUN_S, check=False)


def classes_of(folder: Path, version: str = DEFAULT_VERSION) -> Path:
    """Compile the Java files below a folder on a Kafka and our jar; return the folder with the class files."""
    libraries = f"{jar_path()}:{class_path(ensure_artifacts(f'kafka-{version}'))}"
    return compiled(sorted(folder.rglob("*.java")), libraries)
