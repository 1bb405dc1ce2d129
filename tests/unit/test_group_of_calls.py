"""Whose keys stores, readers and writers use: what they stand on says so, and an argument may only agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share import (
    ConnectorOffsetBackingStore,
    KafkaConfigBackingStore,
    KafkaOffsetBackingStore,
    KafkaStatusBackingStore,
    MemoryOffsetBackingStore,
    OffsetStorageReader,
    OffsetStorageWriter,
    WorkerConfig,
)
from connect_share.errors import ConfigError, InvalidClusterGroupIdError
from connect_share.model.keys import ClusterGroupId
from connect_share.stores.base import NOT_GIVEN, GivenGroup, agreed_group, group_of_worker
from connect_share.worker_config import SHARING_PROPERTY
from tests.support.worker_files import SHARING, WORKER

STORES = pytest.mark.parametrize("kind", [KafkaConfigBackingStore, KafkaStatusBackingStore, KafkaOffsetBackingStore])
OVER_STORES = pytest.mark.parametrize("kind", [OffsetStorageReader, OffsetStorageWriter])
OWN = st.none() | st.sampled_from([ClusterGroupId("group-a"), ClusterGroupId("b"), ClusterGroupId("a.b")])
GIVEN = st.just(NOT_GIVEN) | st.none() | st.sampled_from(["group-a", "b", "a.b", "group-A", "a"])


def worker(group: str = "group-a", *, sharing: bool = True) -> WorkerConfig:
    return WorkerConfig.from_properties(WORKER | {"group.id": group} | (SHARING if sharing else {}))


@given(own=OWN, told=GIVEN)
def test_the_group_is_the_own_one_or_the_call_is_refused(own: ClusterGroupId | None, told: GivenGroup) -> None:
    if told in (NOT_GIVEN, own):
        assert agreed_group(told, own, whose="this store is", other="store") == own
    else:
        with pytest.raises(ConfigError, match=f"cluster_group_id={told!r}, but this store is"):
            agreed_group(told, own, whose="this store is", other="store")


@pytest.mark.parametrize("sharing", [True, False])
def test_what_cannot_be_an_id_is_said_to_be_none(sharing: bool) -> None:
    for text in ("connector-x", "", "a b"):
        with pytest.raises(InvalidClusterGroupIdError):
            group_of_worker(worker(sharing=sharing), text)


@STORES
@pytest.mark.parametrize(
    ("sharing", "told", "switch"),
    [(True, "b", "enabled"), (True, None, "enabled"), (False, "group-a", "disabled"), (False, "b", "disabled")],
)
def test_a_contradiction_is_refused_and_both_are_named(
    kind: Callable[..., Any], sharing: bool, told: str | None, switch: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        kind(worker(sharing=sharing), cluster_group_id=told)
    assert str(refused.value) == (
        f"cluster_group_id={told!r}, but the worker file says {SHARING_PROPERTY}={switch} and group.id='group-a': leave "
        "cluster_group_id out, or use another worker file"
    )
    assert refused.value.property_name == SHARING_PROPERTY


@OVER_STORES
@pytest.mark.parametrize("group", ["group-a", None])
def test_reader_and_writer_take_the_group_of_their_store(kind: Callable[..., Any], group: str | None) -> None:
    store = MemoryOffsetBackingStore(cluster_group_id=group)
    kind(store, "c")
    kind(store, "c", cluster_group_id=group)
    for other in {None, "group-a", "b"} - {group}:
        with pytest.raises(ConfigError, match=f"cluster_group_id={other!r}, but the offset store memory-offsets has"):
            kind(store, "c", cluster_group_id=other)


def test_a_store_over_two_is_asked_with_the_group_of_the_workers() -> None:
    own, of_worker = MemoryOffsetBackingStore(), MemoryOffsetBackingStore(cluster_group_id="group-a")
    assert ConnectorOffsetBackingStore(own, of_worker).cluster_group_id == "group-a"
    assert ConnectorOffsetBackingStore(of_worker).cluster_group_id == "group-a"
    assert ConnectorOffsetBackingStore(own).cluster_group_id is None
    for other in (None, "b"):
        with pytest.raises(ConfigError, match=f"cluster_group_id={other!r}"):
            ConnectorOffsetBackingStore(own, of_worker, cluster_group_id=other)
