"""The jar runs on Java 8.

The locked compiler makes class files of Java 8, but binds calls to the library of the Java that runs it: there some methods
of Java 8 have another return type, and so another descriptor.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from connect_share.jar import JAVA_SOURCES, jar_path
from tests.lab.embedded.artifacts import class_path, ensure_artifacts
from tests.lab.embedded.jvm import QUICK_TOOL
from tests.lab.plugin_jar import OLDEST_KAFKA

pytestmark = pytest.mark.xdist_group("worker_plugin")

CALL = re.compile(r"= (?:Interface)?Methodref\s.*// +(javax?/\S+)")
# How the locked compiler puts texts together.
ITS_OWN = {'java/lang/StringBuilder."<init>":(Ljava/lang/String;)V', "java/lang/String.valueOf:(J)Ljava/lang/String;"}


def ran(tool: str, *arguments: str) -> str:
    done = subprocess.run([tool, *QUICK_TOOL, *arguments], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    return done.stdout


def calls(classes: Iterable[Path]) -> set[str]:
    return set(CALL.findall(ran("javap", "-v", "-p", *map(str, classes))))


@pytest.mark.skipif(shutil.which("javac") is None, reason="no JDK here: only one knows the library of Java 8")
def test_no_call_of_the_jar_is_newer(tmp_path: Path) -> None:
    made, shipped = tmp_path / "made", tmp_path / "shipped"
    libraries = class_path(ensure_artifacts(f"kafka-{OLDEST_KAFKA}"))
    sources = map(str, sorted(JAVA_SOURCES.rglob("*.java")))
    ran("javac", "--release", "8", "-proc:none", "-Xlint:-options", "-cp", libraries, "-d", str(made), *sources)
    with zipfile.ZipFile(jar_path()) as jar:
        jar.extractall(shipped)
    found = calls(shipped.rglob("*.class"))
    assert "java/nio/ByteBuffer.putLong:(J)Ljava/nio/ByteBuffer;" in found
    assert found - calls(made.rglob("*.class")) <= ITS_OWN
