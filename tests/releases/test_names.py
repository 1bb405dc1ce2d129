"""Public names of releases are there, and take what they took; they may take more."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.release_fixtures.names import public_name, signature_of

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
ONE_VALUE = (*POSITIONAL, inspect.Parameter.KEYWORD_ONLY)

# Names that are gone, and the sentence of the changelog that says how to go on.
GONE = {
    "connect_share.admin.consumer_groups.ConsumerGroupsAdmin": "`ConsumerGroupsAdmin` is in `connect_share.runtime` only.",
    "spark_jobs.compare_benchmarks.main": "`spark_jobs.compare_benchmarks` is `python -m tests.lab.",
}
CHANGELOG = Path(__file__).parents[2] / "docs" / "changelog.md"


@pytest.mark.filterwarnings("ignore:.* has moved to:DeprecationWarning")  # old names work for one version
def test_every_public_name_takes_what_it_took(release: Path) -> None:
    modules = json.loads((release / "names.json").read_text())
    assert {"connect_share", "migrator"} <= modules.keys()
    wrong = {
        f"{module}.{name}": found
        for module, names in modules.items()
        for name, before in names.items()
        if f"{module}.{name}" not in GONE
        if (found := list(differences(before, public_name(module, name))))
    }
    assert wrong == {}
    assert [name for name, sentence in GONE.items() if sentence not in CHANGELOG.read_text()] == []


def differences(before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """Yield what a user of a name would miss."""
    yield from (f"no {what}" for what in before.keys() - now.keys())
    for value in before.get("values", {}).items() - now.get("values", {}).items():
        yield f"value {value}"
    if before.get("type") != now.get("type"):
        yield f"type {now.get('type')}"
    yield from calls_refused(before.get("takes"), now.get("takes"))
    members = now.get("members", {})
    for member, takes in before.get("members", {}).items():
        if member not in members:
            yield f"no {member}"
        else:
            yield from (f"{member}: {call}" for call in calls_refused(takes, members[member]))


def calls_refused(before: str | None, now: str | None) -> Iterator[str]:
    """Yield the calls that were possible, with the fewest and the most arguments by place and by name, and are not."""
    if before is None:
        return
    if now is None:
        yield "cannot be called"
        return
    parameters = [each for each in signature_of(before).parameters.values() if each.kind in ONE_VALUE]
    needed = [each for each in parameters if each.default is each.empty]
    for given in (parameters, needed):
        for by_place in (POSITIONAL, (inspect.Parameter.POSITIONAL_ONLY,)):
            places = [each.name for each in given if each.kind in by_place]
            names = {each.name: each.name for each in given if each.kind not in by_place}
            try:
                bound = signature_of(now).bind(*places, **names).arguments
            except TypeError as error:
                yield f"({', '.join([*places, *(f'{name}=' for name in names)])}): {error}"
                continue
            if moved := [name for name, value in bound.items() if isinstance(value, str) and name != value]:
                yield f"other places of {', '.join(moved)}"


@pytest.mark.parametrize(
    ("before", "now", "accepted"),
    [
        ("a, b=..., *, c=...", "a, b=..., *, c=..., d=...", True),
        ("a, b=..., *, c=...", "a, b=..., c=...", True),
        ("a, *args, b", "a, *args, b, **more", True),
        ("a, /", "x, /", False),
        ("a, b=...", "a", False),
        ("a, b=...", "a, b", False),
        ("a, b", "b, a", False),
        ("a, *, c=...", "a, *, d=...", False),
        ("a", "a, d", False),
        ("a", None, False),
    ],
)
def test_differences_are_seen(before: str, now: str | None, accepted: bool) -> None:
    assert (list(calls_refused(before, now)) == []) is accepted
