"""Java test programs for the worker's jar: compiled once for all versions of Kafka, as the jar itself is."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from connect_share.embedded.artifacts import class_path, ensure_artifacts
from connect_share.embedded.java_program import compile_java
from connect_share.embedded.jvm import QUICK
from connect_share.java_runtime import java_command
from connect_share.worker_plugin import jar_path
from tests.lab.plugin_jar import OLDEST_KAFKA, class_path_of

SOURCES = Path(__file__).with_name("java")
_RUN_S = 180

RunJava = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def run_java(tmp_path_factory: pytest.TempPathFactory) -> RunJava:
    """Run a test program: name, version of Kafka, arguments, standard input."""
    classes = tmp_path_factory.mktemp("classes")
    libraries = f"{jar_path()}:{class_path(ensure_artifacts(f'kafka-{OLDEST_KAFKA}'))}"
    compile_java(sorted(SOURCES.rglob("*.java")), classes, libraries, options=["-nowarn"])

    def run(name: str, version: str, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        command = [
            str(java_command()),
            *QUICK,
            "-Xmx700m",
            "-cp",
            f"{classes}:{class_path_of(version)}",
            name,
            *arguments,
        ]
        return subprocess.run(command, input=given, capture_output=True, text=True, timeout=_RUN_S, check=False)

    return run
