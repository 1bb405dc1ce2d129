"""Command lines and log settings of the JVMs that are started here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from connect_share.jar.java_runtime import java_command
from tests.lab.embedded.artifacts import class_path

QUICK: Final = ("-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Starts soonest; for parts that live seconds or minutes."""

QUICK_TOOL: Final = tuple(f"-J{option}" for option in QUICK)
"""The same for Java's tools."""

STEADY: Final = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""Fastest once warm; for benchmarks."""

ARCHIVES_VARIABLE: Final = "CONNECT_SHARE_CLASS_ARCHIVES"
"""Names a folder with class-data archives. Only tests set it: what is measured starts as it does elsewhere."""

_LOG4J: Final = """status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = {level}
rootLogger.appenderRef.out.ref = out
"""
# Kafka before 4.0 logs with log4j 1, or a continuation of it.
_LOG4J_1: Final = """log4j.rootLogger={level}, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


def write_log_settings(folder: Path, level: str = "info") -> Path:
    """Write the log settings of one JVM, for log4j2 and for log4j 1; return the path of the former."""
    path = folder / "log4j2.properties"
    path.write_text(_LOG4J.format(level=level))
    path.with_name("log4j.properties").write_text(_LOG4J_1.format(level=level.upper()))
    return path


def java_arguments(
    libraries: Path,
    main_class: str,
    arguments: Sequence[str],
    *,
    options: Sequence[str],
    log_settings: Path,
    more_classes: Sequence[Path] = (),
) -> list[str]:
    """Return the command line of a Java program.

    ``more_classes`` come last in the class path: the archive belongs to what comes before.
    """
    archive = class_archive(libraries, main_class)
    return [
        str(java_command()),
        *options,
        *((f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()),
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={log_settings}",
        f"-Dlog4j.configuration=file:{log_settings.with_name('log4j.properties')}",
        "-cp",
        os.pathsep.join([class_path(libraries), *map(str, more_classes)]),
        main_class,
        *arguments,
    ]


def class_archive(libraries: Path, main_class: str) -> Path:
    """Return where the class-data archive of a program would be; no JVM uses one of another class path or another Java."""
    kind = "broker" if main_class.startswith("kafka.") else "worker"
    return Path(os.environ.get(ARCHIVES_VARIABLE, os.devnull), f"{kind}-{libraries.name}.jsa")
