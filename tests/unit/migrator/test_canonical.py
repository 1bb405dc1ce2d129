"""What is healed when a config topic is written again in order, and what belongs to an earlier connector."""

from __future__ import annotations

from typing import Any

from connect_share.model.records import TopicType
from connect_share.transform.canonical import CanonicalConfig, canonical_config
from connect_share.transform.rules import KeyTransform
from tests.support.records import TOMBSTONE, config_log, properties

A, B = properties(v="A"), properties(v="B")
ONE_TASK = {"tasks": 1}


def ordered(*pairs: tuple[str, Any]) -> CanonicalConfig:
    return canonical_config(KeyTransform.between(TopicType.CONFIG, None, None), config_log(pairs))


def keys(found: CanonicalConfig) -> list[bytes | None]:
    return [record.key for record in found.records]


def test_tasks_of_an_earlier_connector_are_not() -> None:
    before = ("connector-c", A), ("task-c-0", A), ("commit-c", ONE_TASK), ("connector-c", TOMBSTONE)
    found = ordered(*before, ("connector-c", B), ("commit-c", ONE_TASK))
    assert (found.healed, found.left_without_tasks) == (set(), {"c"})
    assert keys(found) == [b"connector-c"]


def test_nor_by_a_commit_of_an_earlier_connector() -> None:
    before = ("connector-c", A), ("commit-c", ONE_TASK), ("connector-c", TOMBSTONE)
    found = ordered(*before, ("connector-c", B), ("task-c-0", B))
    assert (found.healed, found.left_without_tasks) == (set(), {"c"})
    assert keys(found) == [b"connector-c"]
