"""What a command may be refused is asked before its backup and its first write: rights on all topics, and their limits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from connect_share.errors import AuthorizationError, BrokerError, TopicError, command_line, listed
from connect_share.kafka.admin import Admin, result_of
from connect_share.kafka.client import ALREADY_EXISTS, TopicCollection, TopicRight
from connect_share.kafka.create import alter_command
from connect_share.kafka.descriptions import HeldRights, NewTopicRequest
from connect_share.kafka.limits import Extent, TopicLimits
from connect_share.kafka.write import MIGRATE_CLIENT_ID
from connect_share.model.records import Record, TopicType
from connect_share.worker_config import TOPIC_PROPERTIES, WorkerConfig

_MISSING: Final = HeldRights(frozenset({"DESCRIBE"}), complete=False, exists=False)
"""Of a topic that does not exist: who may not describe it is not told so."""


class RightsAdmin(Admin):
    """An admin client that also asks what its principal may do."""

    def topic_rights(self, names: Iterable[str]) -> dict[str, HeldRights]:
        """Return what the principal may do with topics; of those that do not exist only whether it may create them."""
        wanted = sorted(set(names))

        def ask(timeout_s: float) -> dict[str, HeldRights]:
            futures = self._client.describe_topics(
                TopicCollection(wanted), include_authorized_operations=True, request_timeout=timeout_s
            )
            found = {}
            for name, future in futures.items():
                try:
                    topic = result_of(future, f"describing topic {name}", missing_ok=True, timeout_s=timeout_s)
                except AuthorizationError:
                    found[name] = HeldRights()
                else:
                    found[name] = (
                        self._of_unknown(name) if topic is None else HeldRights.of(topic.authorized_operations)
                    )
            if _MISSING in found.values():
                there = self.describe_topics((name for name, held in found.items() if held.names), together=True)
                if any(found[name] == _MISSING for name in there):
                    raise BrokerError("a broker does not know all topics yet", retriable=True)
            return found

        return self._retried(ask) if wanted else {}

    def _of_unknown(self, topic: str) -> HeldRights:
        """Return whether one may create a topic that a broker does not know; where the controller does, it is asked again."""
        try:
            self.create_topic(NewTopicRequest(topic, 1, -1), validate_only=True)
        except AuthorizationError:
            return _MISSING
        except BrokerError as error:
            error.retriable = error.retriable or error.name == ALREADY_EXISTS
            if error.retriable:
                raise
        return replace(_MISSING, names=_MISSING.names | {"CREATE"})  # other refusals come later

    def require(self, topics: Mapping[str, Collection[str]], group_id: str = "", *of_group: str) -> None:
        """Refuse what would be refused later, all that is missing at once: ``AuthorizationError``."""
        lacking = {f"topic {name}": held.lacking(topics[name]) for name, held in self.topic_rights(topics).items()}
        if of_group:
            lacking[f"group {group_id}"] = self.group_rights([group_id])[group_id].lacking(of_group)
        missing = [f"{', '.join(names)} on {name}" for name, names in lacking.items() if names]
        if missing:
            raise AuthorizationError(f"the principal needs {' and '.join(missing)}")


class TopicNeed(NamedTuple):
    """What is to be done to a topic by the clients of a worker.

    Attributes:
        rights: CREATE is needed only where the topic does not exist; no other can be known there.
        extent: what is to be written, as far as it is known.
    """

    worker: WorkerConfig
    topic: str
    rights: tuple[TopicRight, ...]
    extent: Extent | None = None


def require_access(needs: Iterable[TopicNeed], *, to_write: bool = True) -> None:
    """Refuse what would be refused later, all that is missing at once.

    Without ``to_write`` all is named, too, but only if something is missing that reading needs.

    Raises:
        AuthorizationError: a right is missing.
        TopicError: a topic does not take what is to be written.
    """
    by_login: dict[tuple[tuple[str, str], ...], list[TopicNeed]] = defaultdict(list)
    for need in needs:
        by_login[tuple(sorted(need.worker.admin_settings().properties.items()))].append(need)
    rights, limits, files = dict[str, set[str]](), list[str](), dict[object, None]()
    for same_login in by_login.values():
        _ask(same_login, rights, limits, files)
    if not (rights or limits) or not (to_write or any({"DESCRIBE", "READ"} & names for names in rights.values())):
        return
    commands = (command_line("connect-share", "check", "rights", "-w", file or "FILE") for file in files)
    says_how = listed(commands, separator=" and ")
    lacking = [f"{', '.join(sorted(names))} on topic {topic}" for topic, names in rights.items()]
    found = [f"the principal needs {' and '.join(lacking)} ({says_how} says how)"] if lacking else []
    text = "; ".join([*found, *dict.fromkeys(limits)])
    raise (AuthorizationError if lacking else TopicError)(f"nothing was written: {text}" if to_write else text)


def require_writable(worker: WorkerConfig, records: Iterable[Record]) -> None:
    """Refuse records that would be refused, as :func:`require_access` does."""
    extents: defaultdict[str, Extent] = defaultdict(Extent)
    for record in records:
        extents[record.topic].add(record)
    require_access(TopicNeed(worker, topic, ("READ", "WRITE"), extent) for topic, extent in extents.items())


def _ask(needs: Sequence[TopicNeed], rights: dict[str, set[str]], limits: list[str], files: dict[object, None]) -> None:
    worker, topics = needs[0].worker, {need.topic for need in needs}
    with RightsAdmin(worker.admin_settings(), client_id=worker.client_id(MIGRATE_CLIENT_ID)) as admin:
        held = admin.topic_rights(topics)
        seen = {need.topic for need in needs if need.extent is not None and held[need.topic].exists}
        limited = TopicLimits.seen(admin, [topic for topic in seen if held[topic].names])
    for need in needs:
        if missing := held[need.topic].lacking(need.rights):
            rights.setdefault(need.topic, set()).update(missing)
            files[need.worker.file] = None
        if need.extent is not None and need.topic in limited:
            limits += limited[need.topic].refusals(need.topic, need.extent, partial(_by_command, need))
        elif need.extent is not None and not held[need.topic].exists:
            for kind in (each for each in TopicType if need.worker.topic(each) == need.topic):
                planned = TopicLimits.of(need.worker.topic_settings(kind))
                limits += planned.refusals(need.topic, need.extent, partial(_in_file, need, kind))


def _by_command(need: TopicNeed, name: str, value: str) -> str:
    return f"for the time of the write: {alter_command(need.worker.admin_settings(), need.topic, {name: value})}"


def _in_file(need: TopicNeed, kind: TopicType, name: str, value: str) -> str:
    prefix = TOPIC_PROPERTIES[kind].removesuffix("topic")
    return f"it is made as {need.worker.file} says, so add {prefix}{name}={value}"
