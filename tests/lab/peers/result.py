"""What a run of Kafka's tests has shown: their outcomes, the keys on the topics, the jar's log lines."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, Self
from xml.etree import ElementTree

from pydantic import Field

from tests.lab.compatibility.cells import Part
from tests.lab.compatibility.result import Document

_UNIQUE_ID: Final = re.compile(r"unique-id: (\S+)")
_TROUBLE_CHARS: Final = 300
# REST servers over mocks of herders, and standalone workers.
_WITHOUT_TOPICS: Final = (
    "RestForwardingIntegrationTest",
    "MonitorableSinkIntegrationTest",
    "MonitorableSourceIntegrationTest",
)
_WRITES_NOTHING: Final = (("2.8.2", "InternalTopicsIntegrationTest"),)
_TOPIC_COUNTS: Final = ("own", "foreign", "plain", "other", "unsealed")


class Mode(enum.StrEnum):
    """How the workers of the tests run."""

    PLAIN = "plain"
    """Without the jar."""
    SHARED = "shared"
    """With the jar, among records of other groups."""
    SEALED = "sealed"
    """The same, with encryption keys."""
    MUTANT = "mutant"
    """As ``SHARED``, with a jar that takes the keys of other groups for its own: tests have to fail."""


class TestCase(Part):
    """One test of a JUnit report; ``trouble`` is empty if it passed; ``unique_id`` is not kept."""

    __test__ = False  # for pytest

    name: str
    seconds: float
    trouble: str = ""
    skipped: bool = False
    unique_id: str = Field(default="", exclude=True)


class Evidence(Part):
    """What was seen beside the tests; sums over all clusters that they ran.

    Attributes:
        clusters: Kafka clusters with workers.
        workers: started.
        topics: internal topics whose keys were counted before the brokers stopped.
        own, foreign, plain, other: records by whose key they have: the group's, another one's, without a group, else.
        unsealed: own values that are not sealed.
        uncounted: topics that could not be read, such as those that a test has removed; with the reason.
        announced: log lines that say that sharing is on.
        stopped: log lines that say that sharing stopped.
        refused: log lines of values that were refused.
    """

    clusters: int = 0
    workers: int = 0
    topics: int = 0
    own: int = 0
    foreign: int = 0
    plain: int = 0
    other: int = 0
    unsealed: int = 0
    uncounted: tuple[str, ...] = ()
    announced: int = 0
    stopped: int = 0
    refused: int = 0

    def __add__(self, more: Evidence) -> Self:
        """Return the sums."""
        mine, theirs = self.model_dump(), more.model_dump()
        return type(self).model_validate({name: mine[name] + theirs[name] for name in mine})


class Found(Part):
    """The outcome of one mode: tests, those that passed at the second try only, those that ran alone, and the rest."""

    tests: tuple[TestCase, ...]
    evidence: Evidence
    again: tuple[str, ...]
    alone: tuple[str, ...]
    seconds: int

    @property
    def failed(self) -> tuple[TestCase, ...]:
        """Tests that failed, twice where they ran again."""
        return tuple(test for test in self.tests if test.trouble)

    @property
    def ran(self) -> int:
        """How many Kafka did not skip."""
        return sum(not test.skipped for test in self.tests)

    @property
    def passed(self) -> int:
        """How many passed."""
        return self.ran - len(self.failed)


class Run(Part):
    """One test class in one mode of one version of Kafka, with where and when it ran."""

    kafka: str
    mode: Mode
    test_class: str
    found: Found
    measured_on: str
    load: float
    product: str
    machine: str

    @property
    def troubles(self) -> list[str]:
        """What does not hold; none if all is as it has to be."""
        found, seen = self.found, self.found.evidence
        if found.tests and not found.ran:
            return []
        if self.mode is Mode.MUTANT:
            return [] if found.failed else ["a jar that takes the keys of other groups was not noticed"]
        checks = [(f"{test.name} failed: {test.trouble}", bool(test.trouble)) for test in found.tests]
        checks.append(("no test passed", not found.passed))
        if self.test_class in _WITHOUT_TOPICS:
            return [text for text, wrong in checks if wrong]
        checks.append(("the agent saw no worker, or counted no keys", not seen.workers or not seen.topics))
        writes = (self.kafka, self.test_class) not in _WRITES_NOTHING
        if self.mode is Mode.PLAIN:
            checks.append(("keys of groups were written without the jar", seen.own > 0))
        else:
            checks.append(
                (
                    "no own keys, or none of other groups, were on the topics",
                    (writes and not seen.own) or not seen.foreign,
                )
            )
            checks.append((f"{seen.plain} plain keys were left on the topics", seen.plain > 0))
            checks.append((f"sharing stopped: {seen.stopped} log lines", seen.stopped > 0))
            checks.append(("no worker said that sharing is on", not seen.announced))
        if self.mode is Mode.SEALED:
            checks.append((f"{seen.unsealed} own values were not sealed", seen.unsealed > 0))
        return [text for text, wrong in checks if wrong]


def read_reports(folder: Path) -> dict[str, TestCase]:
    """Return the tests of JUnit's XML reports, by ``Class#method()``."""
    found = {}
    for path in sorted(folder.glob("TEST-*.xml")):
        # Written by the JVM that this program has started.
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            name = f"{case.get('classname', '').rpartition('.')[2]}#{case.get('name', '')}"
            broken = case.find("failure") if case.find("failure") is not None else case.find("error")
            match = _UNIQUE_ID.search("".join(out.text or "" for out in case.iter("system-out")))
            found[name] = TestCase(
                name=name,
                seconds=float(case.get("time", "0").replace(",", "")),
                trouble="" if broken is None else _trouble(broken),
                skipped=case.find("skipped") is not None,
                unique_id=match[1] if match else "",
            )
    return found


def _trouble(broken: ElementTree.Element) -> str:
    text = f"{broken.get('type', '').rpartition('.')[2]}: {broken.get('message', '')}"
    return " ".join(text.split())[:_TROUBLE_CHARS]


def read_evidence(path: Path) -> Evidence:
    """Add up the lines that the agent wrote: one for each cluster, one for each of its topics."""
    seen = Evidence()
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        entry: dict[str, Any] = json.loads(line)
        if "workers" in entry:
            seen += Evidence(clusters=1, workers=entry["workers"])
        elif "trouble" in entry:
            seen += Evidence(uncounted=(f"{entry['topic']}: {entry['trouble']}"[:_TROUBLE_CHARS],))
        else:
            seen += Evidence(topics=1, **{name: entry[name] for name in _TOPIC_COUNTS})
    return seen


def read_log(path: Path) -> Evidence:
    """Count the jar's lines in the log of a JVM."""
    counted = dict.fromkeys(("announced", "stopped", "refused"), 0)
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if "TopicSharingInterceptor)" not in line and "connectshare." not in line:
                continue
            counted["announced"] += " Topic sharing is on " in line
            counted["stopped"] += " Topic sharing stopped" in line or " Topic sharing is still stopped" in line
            counted["refused"] += " Refused the record at " in line
    return Evidence.model_validate(counted)


class Result(Document):
    """All runs; ``classes`` has the names of all test classes of each version of Kafka, also of those that did not run."""

    format: Literal[1] = 1
    classes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    runs: tuple[Run, ...] = ()

    def of(self, kafka: str, mode: Mode) -> dict[str, Run]:
        """Return the runs of a mode by the names of their classes."""
        return {run.test_class: run for run in self.runs if (run.kafka, run.mode) == (kafka, mode)}

    def with_run(self, run: Run, classes: Sequence[str]) -> Self:
        """Return the result with one more run, which takes the place of an older one, and all names of its version."""
        runs = {(one.kafka, one.mode, one.test_class): one for one in (*self.runs, run)}
        return type(self)(
            classes={**self.classes, run.kafka: tuple(classes)}, runs=tuple(runs[key] for key in sorted(runs))
        )
