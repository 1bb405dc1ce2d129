"""The demo's report: whole, self-contained, and safe against what a topic may hold."""

from __future__ import annotations

import pytest

from connect_share.console import printable
from tests.lab.demo.report import render_report
from tests.lab.demo.result import (
    DataAgain,
    DemoResult,
    GroupAgain,
    Move,
    Phase,
    SealedGroup,
    SegmentSearch,
    SharedTopic,
    StoreStart,
)
from tests.lab.demo.views import ConnectorLine, GroupComparison, StateCounts
from tests.support.html_page import PageReader, check_self_contained

_HOSTILE = "<script>alert(1)</script>\"'&\u202e"


def _result(name: str, *, equal: bool = True) -> DemoResult:
    counts = StateCounts(
        connectors=1,
        connector_states={name: 1},
        tasks=1,
        task_states={"FAILED": 1},
        properties=3,
        active_topics=1,
        source_offsets=0,
    )
    differences = () if equal else (name,)
    line = ConnectorLine(connector=name, wanted=name, found=None, differences=differences)
    comparison = GroupComparison(cluster_group_id=name, wanted=counts, found=counts, connectors=(line,))
    data = DataAgain(
        kind="data topic",
        name=name,
        before=2001,
        after_start=2002,
        at_end=2003,
        lines_appended=1,
        lines_arrived=1,
        differences=differences,
    )
    again = GroupAgain(
        seconds=7.5,
        restart=comparison,
        data=(data, data.model_copy(update={"kind": "file of sink", "before": 3001})),
        stores=comparison,
        foreign_log_lines=0,
    )
    return DemoResult(
        versions={"Kafka": name},
        seconds=61.2,
        phases=(Phase(name=name, seconds=1.0), Phase(name="second", seconds=3.0)),
        move=Move(warnings=(name,), verified_equal=equal, differences=differences),
        starts=(StoreStart(cluster_group_id=name, topic=name, milliseconds=4.5, own_records=5, foreign_records=6789),),
        groups=(comparison,),
        again=(again,),
        shared_topics=(SharedTopic(topic=name, records=4001, plain_keys=0 if equal else 4002),),
        sealed=SealedGroup(
            cluster_group_id=name,
            dedicated=SegmentSearch(files=5001, with_text=5002),
            shared=SegmentSearch(files=5003, with_text=0 if equal else 5004),
        ),
    )


@pytest.mark.parametrize("equal", [True, False])
def test_what_topics_hold_is_escaped_everywhere(equal: bool) -> None:
    """As many tags as with a harmless name: no text became markup."""
    hostile = PageReader(render_report(_result(_HOSTILE, equal=equal)))
    harmless = PageReader(render_report(_result("harmless", equal=equal)))
    assert "script" not in {tag.split()[0] for tag in hostile.tags}
    assert hostile.tags == harmless.tags
    assert sum(printable(_HOSTILE) in text for text in hostile.texts) == sum(
        "harmless" in text for text in harmless.texts
    )
    assert "\u202e" not in hostile.text


def test_the_verdict_is_the_results() -> None:
    page = render_report(_result("orders"))
    check_self_contained(page)
    assert 'class="no"' not in page
    page = render_report(_result("orders", equal=False))
    assert page.count('class="no"') == 4
    assert 'class="yes"' not in page
    for told in ("&#39;orders&#39; on the shared topics: orders", "file of sink", "data topic", "beside Java"):
        assert told in page


def test_numbers_are_shown() -> None:
    texts = PageReader(render_report(_result("orders", equal=False))).text
    for shown in ("6,789", "61 seconds", "7.5"):
        assert shown in texts
    for number in (2001, 2002, 2003, 3001, 4001, 4002):
        assert f"{number:,}" in texts


def test_the_demo_succeeds_only_if_every_part_is_right() -> None:
    right, wrong = _result("orders"), _result("orders", equal=False)
    assert right.equal
    assert '"equal":true' in right.model_dump_json()
    for part in ("move", "groups", "again", "shared_topics"):
        assert not right.model_copy(update={part: getattr(wrong, part)}).equal
    assert not right.model_copy(update={"again": ()}).equal
