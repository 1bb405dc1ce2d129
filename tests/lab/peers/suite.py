"""Runs Kafka's own tests in JVMs of their own, with an agent that turns topic sharing on in their workers."""

from __future__ import annotations

import base64
import os
import re
import secrets
import shutil
import subprocess
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from connect_share.jar import jar_path
from tests.lab.embedded.artifacts import class_path, ensure_artifacts
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.embedded.java_program import compiled
from tests.lab.embedded.jvm import QUICK, java_arguments, write_log_settings
from tests.lab.peers.result import Evidence, Found, Mode, TestCase, read_evidence, read_log, read_reports
from tests.lab.plugin_jar import build_jar

LOCK_FILE: Final = Path(__file__).with_name("artifacts.lock.json")
PACKAGE: Final = "org.apache.kafka.connect.integration"
FOREIGN: Final = 3_000
"""Records of other groups before the first worker of a cluster; 100 a second follow."""

_JAVA: Final = Path(__file__).with_name("java") / "connectpeers"
_CLASS: Final = re.compile(PACKAGE.replace(".", "/") + r"/((?!StandaloneWorker|StartAndStop)\w+Test)\.class")
_LIMIT_S: Final = 3_600
_ENDED: Final = (0, 1)  # all passed, some failed
# They start a second, exactly-once cluster of the same group in one JVM, which the jar refuses on purpose.
_ALONE: Final = tuple(
    f"{PACKAGE}.OffsetsApiIntegrationTest#test{what}SourceConnectorOffsetsExactlyOnceSupportEnabled"
    for what in ("Alter", "Reset")
)
MUTATION: Final = (
    "return key.startsWith(prefix) && isOriginal(type, key, prefix.length()) ? key.substring(prefix.length()) : null;",
    """for (int at = key.indexOf('.') + 1; at > 0; at = key.indexOf('.', at) + 1) {
            if (isOriginal(type, key, at)) {
                return key.substring(at);
            }
        }
        return null;""",
)
"""What stands in ``GroupKeys.java``, and what a jar has instead whose workers take config and status keys of every group."""


def test_classes(version: str) -> list[str]:
    """Return the names of all test classes whose workers have internal topics."""
    with zipfile.ZipFile(_test_jar(version)) as archive:
        return sorted(match[1] for name in archive.namelist() if (match := _CLASS.fullmatch(name)))


def _test_jar(version: str) -> Path:
    return ensure_artifacts(f"peers-{version}", LOCK_FILE) / f"connect-runtime-{version}-test.jar"


class Suite:
    """One test class of one version of Kafka in one mode.

    Args:
        version: of Kafka, for which the locks have sets.
        mode: how workers run.
        test_class: its name, without the package.
        folder: for logs, reports and evidence; emptied.
    """

    def __init__(self, version: str, mode: Mode, test_class: str, folder: Path) -> None:
        self._mode, self._folder = mode, folder
        self._class = f"{PACKAGE}.{test_class}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._kafka = ensure_artifacts(f"kafka-{version}")
        self._tests = ensure_artifacts(f"peers-{version}", LOCK_FILE)
        self._jar = folder / "connect-share.jar"
        self._jar.write_bytes(
            build_jar({"GroupKeys.java": MUTATION}) if mode is Mode.MUTANT else jar_path().read_bytes()
        )
        self._agent = folder / "agent.jar"
        with zipfile.ZipFile(self._agent, "w") as archive:
            archive.writestr(
                "META-INF/MANIFEST.MF", "Manifest-Version: 1.0\r\nPremain-Class: connectpeers.Agent\r\n\r\n"
            )
        # Kafka's tests list these as files, which a jar has not.
        with zipfile.ZipFile(_test_jar(version)) as archive:
            names = [name for name in archive.namelist() if name.startswith("test-plugins/")]
            archive.extractall(folder / "resources", names)

    def run(self) -> Found:
        """Run the tests, then each that failed once more."""
        began = time.monotonic()
        plain = self._mode is Mode.PLAIN
        alone = [] if plain else [name for name in _ALONE if name.startswith(f"{self._class}#")]
        left_out = [f"--exclude-methodname={re.escape(name)}" for name in alone]
        tests, evidence = self._jvm("all", [f"--select-class={self._class}", *left_out])
        for number, name in enumerate(alone, 1):
            more, seen = self._jvm(f"alone-{number}", [f"--select-method={name}"], exactly_once=True)
            tests, evidence = {**tests, **more}, evidence + seen
        failed = [test for test in tests.values() if test.trouble and test.unique_id]
        again = []
        if failed and self._mode is not Mode.MUTANT:
            more, seen = self._jvm("again", [f"--select-unique-id={test.unique_id}" for test in failed])
            again = [test.name for test in failed if test.name in more and not more[test.name].trouble]
            tests, evidence = {**tests, **more}, evidence + seen
        return Found(
            tests=tuple(tests.values()),
            evidence=evidence,
            again=tuple(again),
            alone=tuple(name.removeprefix(f"{PACKAGE}.") for name in alone),
            seconds=round(time.monotonic() - began),
        )

    def _jvm(
        self, name: str, selectors: Sequence[str], *, exactly_once: bool = False
    ) -> tuple[dict[str, TestCase], Evidence]:
        folder = self._folder / name
        (folder / "tmp").mkdir(parents=True)
        log, evidence = folder / "log.txt", folder / "evidence.jsonl"
        command = self._command(folder, selectors, exactly_once)
        with log.open("wb") as out:
            try:
                code = subprocess.run(command, stdout=out, stderr=out, timeout=_LIMIT_S, check=False).returncode
            except subprocess.TimeoutExpired:
                raise EmbeddedError(f"Kafka's tests did not end within {_LIMIT_S} s; the log is {log}") from None
            finally:
                shutil.rmtree(folder / "tmp", ignore_errors=True)
        if code not in _ENDED:
            raise EmbeddedError(f"JUnit ended with {code}; the log is {log}")
        return read_reports(folder), read_log(log) + read_evidence(evidence)

    def _command(self, folder: Path, selectors: Sequence[str], exactly_once: bool) -> list[str]:
        libraries = os.pathsep.join([class_path(self._kafka), class_path(self._tests), str(jar_path())])
        classes = compiled([_JAVA / "Agent.java", *sorted(_JAVA.glob("[!A]*.java"))], libraries)
        shared = self._mode is not Mode.PLAIN
        key = f"1:{base64.b64encode(secrets.token_bytes(32)).decode()}" if self._mode is Mode.SEALED else ""
        properties = {
            "java.io.tmpdir": folder / "tmp",
            "peers.evidence": folder / "evidence.jsonl",
            "peers.sharing": str(shared).lower(),
            "peers.foreign": FOREIGN if shared else 0,
            "peers.keys": key,
            "peers.exactly.once": str(exactly_once).lower(),
        }
        jars = [self._folder / "resources", *sorted(self._tests.glob("*.jar")), *([self._jar] if shared else [])]
        return java_arguments(
            self._kafka,
            "org.junit.platform.console.ConsoleLauncher",
            ["execute", "--disable-banner", "--details=tree", f"--reports-dir={folder}", *selectors],
            options=[
                *QUICK,
                "-Xmx2g",
                f"-javaagent:{self._agent}",
                *(f"-D{name}={value}" for name, value in properties.items()),
            ],
            log_settings=write_log_settings(folder),
            more_classes=[classes, *jars],
        )
