"""How our JVMs are started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from connect_share.embedded.artifacts import class_path
from connect_share.java_runtime import java_command

QUICK: Final = ("-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Starts soonest; for parts that live seconds or minutes."""

STEADY: Final = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""Fastest once warm; for benchmarks."""

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
    """Write the log settings of one JVM, for log4j2 and for log4j 1; gives the former."""
    path = folder / "log4j2.properties"
    path.write_text(_LOG4J.format(level=level))
    path.with_name("log4j.properties").write_text(_LOG4J_1.format(level=level.upper()))
    return path


def java_arguments(
    libraries: Path, main_class: str, arguments: Sequence[str], *, options: Sequence[str], log_settings: Path
) -> list[str]:
    """Give the command line of a Java program on the jars of a folder."""
    return [
        str(java_command()),
        *options,
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={log_settings}",
        f"-Dlog4j.configuration=file:{log_settings.with_name('log4j.properties')}",
        "-cp",
        class_path(libraries),
        main_class,
        *arguments,
    ]
