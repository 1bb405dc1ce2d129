"""Kafka's own tests without their JVMs: what counts as failed, what was seen beside the tests, and the verdict."""

from __future__ import annotations

import pytest

from tests.lab.peers.result import Evidence, Found, Mode, Run, TestCase

PASSED = TestCase(name="OffsetsApiIntegrationTest#testGet()", seconds=1.5)
SKIPPED = TestCase(name="OffsetsApiIntegrationTest#testAlter()", seconds=0, skipped=True)
FAILED = TestCase(name="OffsetsApiIntegrationTest#testReset()", seconds=2, trouble="AssertionError: 1 | 2")
SEEN = Evidence(clusters=1, workers=3, topics=3, own=9, foreign=90, announced=3)


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
