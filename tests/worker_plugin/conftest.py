"""Java test programs for the worker's jar: compiled once for all versions of Kafka, as the jar itself is."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from connect_share.jar import jar_path
from connect_share.jar.java_runtime import java_command
from tests.lab.embedded.artifacts import class_path, ensure_artifacts
from tests.lab.embedded.jvm import QUICK
from tests.lab.plugin_jar import OLDEST_KAFKA
from tests.support.java_tests import classes_of

SOURCES = Path(__file__).with_name("java")
_RUN_S = 500

RunJava = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run_java() -> RunJava:
    """Run a test program: name, version of Kafka, arguments, standard input."""
    classes = classes_of(SOURCES, OLDEST_KAFKA)

    def run(name: str, version: str, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        # The classes come first: they have a logger that takes the place of Kafka's.
        path = f"{classes}:{jar_path()}:{class_path(ensure_artifacts(f'kafka-{version}'))}"
        command = [str(java_command()), *QUICK, "-Xmx700m", "-cp", path, name, *arguments]
        return subprocess.run(command, input=given, capture_output=True, text=True, timeout=_RUN_S, check=False)

    return run
