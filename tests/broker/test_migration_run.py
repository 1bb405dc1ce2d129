"""What a user confirms is what is applied: one plan object, one reading of each file."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from connect_share.model.records import TopicType
from migrator.plan import MigrationPlan
from migrator.run import manifest_path
from tests.support.migration_site import Site, run


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often each file is opened, by name, and how often a plan is parsed."""
    counts: Counter[str] = Counter()
    active = True

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if active and event == "open":
            counts[str(arguments[0]).rpartition("/")[2]] += 1

    sys.addaudithook(hook)
    parse = MigrationPlan.model_validate_json

    def counted(*arguments: Any, **named: Any) -> Any:
        counts["parses of a plan"] += 1
        return parse(*arguments, **named)

    monkeypatch.setattr(MigrationPlan, "model_validate_json", counted)
    yield counts
    active = False


def test_an_apply_reads_each_file_once(site: Site, opened: Counter[str]) -> None:
    source, destination = site.small_source(), site.shared()
    plan = site.plan(source, destination)
    opened.clear()
    code, _, err = run("apply", plan, "--yes")
    assert code == 0, err
    # The file is opened to be locked, read once, and compared once more before the first record is written.
    assert (opened[plan.name], opened["parses of a plan"]) == (3, 1)
    assert (opened[source.name], opened[destination.name]) == (1, 1)


def _answering(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Answer ``yes`` to the next question, after something else was done."""

    def answer() -> str:
        meanwhile()
        return "yes\n"

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True, readline=answer))


def test_a_plan_that_is_changed_at_the_question_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = site.plan(site.small_source(), site.shared())
    text = plan.read_text()
    _answering(monkeypatch, lambda: plan.write_text(text + "\n"))
    code, _, err = run("apply", plan)
    assert code == 1
    assert f"{plan} was changed while this command was running, and nothing was written" in err
    assert not manifest_path(plan).exists()
    with site.admin() as admin:
        assert admin.describe_topics([site.topic("shared", TopicType.CONFIG)]) == {}
    plan.write_text(text)
    _answering(monkeypatch, lambda: None)
    assert run("apply", plan)[0] == 0


def test_a_worker_file_that_is_changed_at_the_question_changes_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, destination = site.small_source(), site.shared()
    plan = site.plan(source, destination)
    _answering(
        monkeypatch, lambda: [file.write_text("bootstrap.servers=nowhere:1\n") for file in (source, destination)]
    )
    code, _, err = run("apply", plan)
    assert code == 0, err


def test_one_command_at_a_time_from_the_question_on(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = site.plan(site.small_source(), site.shared())
    others: list[tuple[int, str, str]] = []
    _answering(monkeypatch, lambda: others.append(run("apply", plan, "--yes")))
    assert run("apply", plan)[0] == 0
    ((code, _, err),) = others
    assert code == 1
    assert f"another process is applying {plan} right now" in err
