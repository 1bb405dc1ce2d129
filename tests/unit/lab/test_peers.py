"""Kafka's own tests without their JVMs: what counts as failed, what was seen beside the tests, and the verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.peers.result import (
    Evidence,
    Found,
    Mode,
    Run,
    TestCase,
    read_evidence,
    read_log,
    read_reports,
)

PASSED = TestCase(name="OffsetsApiIntegrationTest#testGet()", seconds=1.5)
SKIPPED = TestCase(name="OffsetsApiIntegrationTest#testAlter()", seconds=0, skipped=True)
FAILED = TestCase(name="OffsetsApiIntegrationTest#testReset()", seconds=2, trouble="AssertionError: 1 | 2")
SEEN = Evidence(clusters=1, workers=3, topics=3, own=9, foreign=90, announced=3)
REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="JUnit Jupiter" tests="3">
<testcase name="testGet()" classname="org.apache.kafka.connect.integration.OffsetsApiIntegrationTest" time="1,001.5">
<system-out><![CDATA[
unique-id: [engine:junit-jupiter]/[class:a.B]/[method:testGet()]
display-name: testGet()
]]></system-out></testcase>
<testcase name="testReset()" classname="org.apache.kafka.connect.integration.OffsetsApiIntegrationTest" time="2">
<failure message="expected:
 1" type="org.opentest4j.AssertionFailedError"><![CDATA[trace]]></failure></testcase>
<testcase name="testOff()" classname="org.apache.kafka.connect.integration.OffsetsApiIntegrationTest" time="0">
<skipped/></testcase>
</testsuite>
"""


def run(mode: Mode, seen: Evidence, *tests: TestCase) -> Run:
    found = Found(tests=tests or (PASSED,), evidence=seen, again=(), alone=(), seconds=90)
    return Run(
        kafka="4.3.1",
        mode=mode,
        test_class="OffsetsApiIntegrationTest",
        found=found,
        measured_on="2026-11-23",
        load=1,
        product="0.3.0",
        machine="2 processors",
    )


def test_a_report_of_junit_is_read(tmp_path: Path) -> None:
    (tmp_path / "TEST-junit-jupiter.xml").write_text(REPORT)
    passed, failed, skipped = read_reports(tmp_path).values()
    assert (passed.name, passed.seconds, passed.trouble) == ("OffsetsApiIntegrationTest#testGet()", 1001.5, "")
    assert passed.unique_id == "[engine:junit-jupiter]/[class:a.B]/[method:testGet()]"
    assert failed.trouble == "AssertionFailedError: expected: 1"
    assert skipped.skipped
    assert Found(tests=(passed, failed, skipped), evidence=SEEN, again=(), alone=(), seconds=1).passed == 1


def test_the_evidence_is_added_up(tmp_path: Path) -> None:
    path, log = tmp_path / "evidence.jsonl", tmp_path / "log.txt"
    topic = '{"topic":"t","own":3,"foreign":30,"plain":1,"other":2,"unsealed":3}\n'
    path.write_text('{"workers":3}\n' + topic + '{"topic":"gone","trouble":"no such topic"}\n{"workers":1}\n' + topic)
    log.write_text(
        "[now] INFO Topic sharing is on (version 1): ... (connectshare.TopicSharingInterceptor)\n"
        "[now] ERROR Topic sharing stopped: a record (connectshare.TopicSharingInterceptor)\n"
        "[now] INFO Topic sharing is on (of.another.Class)\n"
    )
    assert read_evidence(path) + read_log(log) == Evidence(
        clusters=2,
        workers=4,
        topics=2,
        own=6,
        foreign=60,
        plain=2,
        other=4,
        unsealed=6,
        uncounted=("gone: no such topic",),
        announced=1,
        stopped=1,
    )
    assert read_evidence(tmp_path / "none") == Evidence()


@pytest.mark.parametrize(
    ("one", "trouble"),
    [
        (run(Mode.SHARED, SEEN), ""),
        (run(Mode.SEALED, SEEN), ""),
        (run(Mode.PLAIN, Evidence(workers=1, topics=3, plain=9)), ""),
        (run(Mode.MUTANT, SEEN, FAILED), ""),
        (run(Mode.MUTANT, SEEN), "not noticed"),
        (run(Mode.SHARED, SEEN, PASSED, FAILED), "testReset"),
        (run(Mode.SHARED, Evidence()), "saw no worker"),
        (run(Mode.SHARED, SEEN + Evidence(plain=1)), "1 plain keys"),
        (run(Mode.SHARED, SEEN + Evidence(stopped=1)), "sharing stopped"),
        (run(Mode.SHARED, SEEN + Evidence(foreign=-90)), "none of other groups"),
        (run(Mode.SHARED, SEEN + Evidence(announced=-3)), "that sharing is on"),
        (run(Mode.SEALED, SEEN + Evidence(unsealed=2)), "2 own values were not sealed"),
        (run(Mode.PLAIN, SEEN), "without the jar"),
        (run(Mode.SHARED, Evidence(), SKIPPED), ""),
        (run(Mode.SHARED, SEEN + Evidence(own=-SEEN.own)), "no own keys"),
    ],
)
def test_a_run_holds_only_with_all_of_its_evidence(one: Run, trouble: str) -> None:
    assert trouble in " ".join(one.troubles)
    assert bool(one.troubles) == bool(trouble)
