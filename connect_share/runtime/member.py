"""A worker as a member of its Connect group: who leads, and what this worker is to run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self

from connect_share.errors import (
    BrokerError,
    ConnectShareError,
    GroupMembershipError,
    GroupProtocolError,
    NotStartedError,
    listed,
    refusal,
)
from connect_share.kafka.connect_protocol import (
    CONFIG_MISMATCH,
    NO_ERROR,
    NOTHING,
    ConnectorsAndTasks,
    ExtendedAssignment,
    ExtendedWorkerState,
    decode_assignment,
    decode_worker_state,
)
from connect_share.kafka.descriptions import GroupMember
from connect_share.log.threads import BackgroundThread, await_end, where_raised
from connect_share.model.config_state import ClusterConfigState
from connect_share.model.keys import INT32_MAX, shown
from connect_share.model.limited_log import LimitedLog
from connect_share.runtime.assignor import Change, balanced_assignment
from connect_share.runtime.coordinator import GroupCoordinator, GroupSettings, Joined, MemberCallbacks, client_configs
from connect_share.runtime.protocol_encoding import encode_assignment, encode_worker_state, fits
from connect_share.stores.config import ConfigBackingStore
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.client_translation import whole_number

_logger = logging.getLogger(__name__)

PYTHON_PROTOCOL: Final = "connect-share-sessioned"
"""Name of the group protocol. Java workers do not offer it: a group is of one kind of workers, by the broker's own check."""
_CLIENT_ID_SUFFIX: Final = "connect-share-member"
_TURN_MS: Final = 200  # how long a join is waited for before the thread checks whether it has to stop
_LEAVE_MS: Final = 1_000
STOP_TIMEOUT_S: Final = 10.0
_TIMES: Final = ("session.timeout.ms", "heartbeat.interval.ms", "rebalance.timeout.ms", "retry.backoff.ms")
_NAMED: Final = 10

Assignor = Callable[[Mapping[str, ConnectorsAndTasks], ConnectorsAndTasks], Mapping[str, Change]]
OnFailed = Callable[[ConnectShareError], None]


@dataclass(frozen=True)
class Generation:
    """One rebalance, as its members see it.

    Attributes:
        number: the broker's generation.
        member_id: this member.
        leader: member id of the leader.
        leader_url: where requests for the leader go.
        config_offset: position in the config topic that the assignment was made of.
    """

    number: int
    member_id: str
    leader: str
    leader_url: str
    config_offset: int

    @property
    def is_leader(self) -> bool:
        """Whether this member leads the group."""
        return self.leader == self.member_id


class GroupListener(Protocol):
    """What a runtime does at a rebalance; called on one thread, one after the other.

    Heartbeats go on meanwhile. A call that takes longer than ``rebalance.timeout.ms`` costs the membership.
    """

    def on_revoked(self, items: ConnectorsAndTasks) -> None:
        """Stop these, and return when they have stopped: another worker starts them then."""

    def on_assigned(self, items: ConnectorsAndTasks, generation: Generation) -> None:
        """Start these, in addition to what runs; called after each rebalance, with nothing new too."""


class ConnectGroupMember:
    """Membership in the group ``group.id``, with Connect's protocol type; a thread of its own keeps it.

    The config store has to be started. A leader assigns what the store's snapshot holds, and a member starts nothing before
    its own store is at the leader's position. Source: ``WorkerCoordinator``, ``WorkerGroupMember``.

    Args:
        worker_config: ``group.id``, client settings, ``session.timeout.ms``, ``heartbeat.interval.ms`` and
            ``rebalance.timeout.ms``, with Connect's defaults.
        config: the config store of this worker.
        listener: starts and stops connectors and tasks.
        worker_url: where other workers reach this one, such as ``http://host:8083/``.
        assignor: returns the changes that a leader distributes.
        on_failed: called once, with the error, when the membership has ended by an error. Everything was revoked before.

    Raises:
        ConfigError: a setting is wrong, or cannot be used here; names it.
    """

    def __init__(
        self,
        worker_config: WorkerConfig,
        config: ConfigBackingStore,
        listener: GroupListener,
        *,
        worker_url: str,
        assignor: Assignor = balanced_assignment,
        on_failed: OnFailed | None = None,
    ) -> None:
        self._config, self._listener, self._url, self._assignor = config, listener, worker_url, assignor
        self._on_failed = on_failed
        self._sync_timeout_s = worker_config.worker_sync_timeout_ms / 1000
        self._worker = worker_config
        self._renew()

    def _renew(self) -> None:
        """Make what one life of this member needs."""
        self._wake = threading.Event()
        self._rejoin = threading.Event()
        self._stopping = threading.Event()
        self._held = self._ending = NOTHING
        self._generation: Generation | None = None
        self._failure: ConnectShareError | None = None
        self._said = LimitedLog(_logger, at_first=1, every_s=30.0)
        self._group, configs = membership_settings(self._worker)
        callbacks = MemberCallbacks(self._state, self._assign, self._wake.set)
        self._coordinator = GroupCoordinator(configs, self._group, callbacks)
        self._thread = BackgroundThread("connect-group-member", self._run, self._fail)

    def start(self) -> None:
        """Begin to join; after :meth:`stop`, also after a failure, as a new member.

        Raises:
            NotStartedError: it was started before, and has not ended since.
        """
        if self._thread.is_alive():
            raise NotStartedError(
                "this ConnectGroupMember was started before, and has not ended since; call stop() first"
            )
        if self._stopping.is_set() or self._thread.ident is not None:
            self._renew()
        self._thread.start()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Revoke everything, leave the group and close; waits ``timeout_s`` at most for the listener."""
        self._stopping.set()
        self._wake.set()
        if self._thread.ident is None:
            self._coordinator.close(_LEAVE_MS)  # it was never started
        else:
            await_end(self._thread, timeout_s)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def generation(self) -> Generation | None:
        """The last rebalance; ``None`` before the first, and while this is no member."""
        return self._generation

    @property
    def assignment(self) -> ConnectorsAndTasks:
        """What this worker runs; what is being revoked does not count any more."""
        return self._held - self._ending

    @property
    def failed(self) -> ConnectShareError | None:
        """What has ended the membership."""
        return self._failure

    def request_rejoin(self) -> None:
        """Ask for a rebalance: connectors or numbers of tasks have changed."""
        self._rejoin.set()
        self._wake.set()

    @staticmethod
    def is_own_member(member: GroupMember) -> bool:
        """Return whether a member of the group joined by this class; for ``allow_live_members`` of ``ConnectStorage``."""
        if member.protocol:
            return member.protocol == PYTHON_PROTOCOL
        # Brokers name no protocol during a rebalance. Members of both kinds are never in one group.
        return member.client_id.endswith(_CLIENT_ID_SUFFIX)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._turn()
            self._revoke(self._held)
        except BaseException as exc:  # noqa: BLE001 - also what a listener raises
            ended = "Membership in group %s has ended: %s"
            _logger.error(ended, self._group.group_id, where_raised(exc))  # noqa: TRY400 - its text may quote configuration
            self._fail(exc)
        finally:
            self._generation = None
            self._coordinator.close(_LEAVE_MS)

    def _turn(self) -> None:
        try:
            joined = self._coordinator.join(_TURN_MS)
        except BrokerError as error:
            if not error.retriable:
                raise
            self._said.warning("Joining group %s again: %s", self._group.group_id, error)
            joined = None
            self._stopping.wait(self._group.retry_backoff_ms / 1000)
        if self._coordinator.take_lost():
            if self._generation is not None:
                _logger.warning("Group %s has dropped this member; it joins again", self._group.group_id)
            self._generation = None
            self._revoke(self._held)
        elif self._generation is not None and self._coordinator.is_unreachable:
            # For the group it may be a member again, with all it had: it has to say that it runs nothing.
            _logger.warning("No coordinator of group %s has answered for the session timeout", self._group.group_id)
            self._generation = None
            self._revoke(self._held)
            self._coordinator.request_rejoin()
        if joined is not None:
            self._take(joined)
        elif not self._coordinator.needs_rejoin:
            if self._rejoin.is_set():
                self._rejoin.clear()
                self._coordinator.request_rejoin()
            elif self._wake.wait(self._group.heartbeat_interval_ms / 1000):
                self._wake.clear()

    def _take(self, joined: Joined) -> None:
        assignment = decode_assignment(joined.assignment)
        if assignment.error != NO_ERROR or not self._has_read(assignment.config_offset):
            if assignment.error == NO_ERROR:
                # No other member starts what it was to start until it is out of the group.
                self._revoke(self._held)
                self._coordinator.leave(_LEAVE_MS)
            self._read_config()
            self._coordinator.request_rejoin()
            return
        self._revoke(assignment.revoked)
        generation = Generation(
            joined.generation, joined.member_id, assignment.leader, assignment.leader_url, assignment.config_offset
        )
        self._generation, self._held = generation, self._held | assignment.assigned
        _logger.info(
            "Generation %d of group %s: %s leads; assigned %s; this worker runs %d connectors and %d tasks",
            generation.number,
            self._group.group_id,
            "this worker" if generation.is_leader else shown(generation.leader_url),
            _named(assignment.assigned),
            len(self._held.connectors),
            len(self._held.tasks),
        )
        with listening():
            self._listener.on_assigned(assignment.assigned, generation)
        if assignment.revoked:
            self._coordinator.request_rejoin()

    def _revoke(self, items: ConnectorsAndTasks) -> None:
        ending = self._held & items
        if ending:
            _logger.info("Group %s revokes %s", self._group.group_id, _named(ending))
            self._ending = ending  # this worker's for the group, until it has stopped; for the runtime not any more
            with listening():
                self._listener.on_revoked(ending)
            self._held, self._ending = self._held - ending, NOTHING

    def _has_read(self, offset: int) -> bool:
        if self._config.snapshot().offset < offset:
            self._read_config()
        return self._config.snapshot().offset >= offset

    def _read_config(self) -> None:
        try:
            self._config.refresh(self._sync_timeout_s)
        except ConnectShareError as error:
            self._said.warning("The config topic was not read to its end: %s", error)
            self._stopping.wait(self._group.retry_backoff_ms / 1000)

    def _fail(self, error: BaseException) -> None:
        if self._failure is not None:
            return
        try:
            self._revoke(self._held)
        except BaseException as exc:  # noqa: BLE001
            _logger.error("What this worker ran could not be revoked: %s", where_raised(exc))  # noqa: TRY400 - the same
        # The text of an exception that is not ours may quote configuration.
        unexpected = GroupMembershipError(f"membership ended by an unexpected {type(error).__name__}")
        self._failure = failure = error if isinstance(error, ConnectShareError) else unexpected
        if self._on_failed is not None:
            self._on_failed(failure)

    # Called on the client's thread.

    def _state(self) -> bytes:
        offset, generation = self._config.snapshot().offset, self._generation
        assignment = None
        # Of a member that the group has dropped others run everything, and it is stopping that.
        if generation is not None and not self._coordinator.is_lost:
            assignment = ExtendedAssignment(
                generation.leader, generation.leader_url, generation.config_offset, self._held
            )
        return encode_worker_state(ExtendedWorkerState(self._url, offset, assignment))

    def _assign(self, leader: str, metadata: Mapping[str, bytes]) -> dict[str, bytes]:
        snapshot = self._config.snapshot()
        states: dict[str, ExtendedWorkerState] = {}
        for member, data in metadata.items():
            try:
                states[member] = decode_worker_state(data)
            except GroupProtocolError as error:
                _logger.warning("Member %s gets nothing: its state cannot be read: %s", member, error)
        behind = any(state.config_offset > snapshot.offset for state in states.values())
        running = {
            member: NOTHING if state.assignment is None else state.assignment.assigned
            for member, state in states.items()
        }
        changes = {} if behind else self._assignor(running, configured(snapshot))
        code = CONFIG_MISMATCH if behind else NO_ERROR
        return {
            member: encode_assignment(
                ExtendedAssignment(leader, self._url, snapshot.offset, change.assigned, change.revoked, error=code)
            )
            for member in metadata
            for change in [changes.get(member, Change())]
        }


def _named(items: ConnectorsAndTasks) -> str:
    """Return the first items for a log line; others may have named them."""
    return listed((shown(str(each)) for each in (*items.connectors, *items.tasks)), _NAMED) or "nothing"


@contextmanager
def listening() -> Iterator[None]:
    """Name what a listener raises by kind and place: its own text may quote configuration."""
    try:
        yield
    except ConnectShareError:
        raise
    except BaseException as exc:  # noqa: BLE001
        raise GroupMembershipError(f"the listener failed: {where_raised(exc)}") from None


def configured(state: ClusterConfigState) -> ConnectorsAndTasks:
    """Return the connectors of a snapshot and their tasks: what the workers of a group run between them.

    A connector whose name does not fit the group protocol is left out, or it would end the leader: on topics that are not
    sealed, any writer can put it there.
    """
    names = sorted(filter(fits, state.connectors()))
    return ConnectorsAndTasks(tuple(names), tuple(task for name in names for task in sorted(state.tasks(name))))


def membership_settings(worker: WorkerConfig) -> tuple[GroupSettings, dict[str, Any]]:
    """Return the settings of the group and of a member's client; ``ConfigError`` names one that cannot be used here."""
    given = {}
    for name in _TIMES:
        text = worker.originals.get(name, "")
        if text.strip():
            given[name.replace(".", "_")] = number = whole_number(name, text)
            if not 0 < number <= INT32_MAX:
                raise refusal(name, f"has to be from 1 to {INT32_MAX}, in milliseconds")
    found = GroupSettings(worker.group_id, PYTHON_PROTOCOL, **given)
    if found.heartbeat_interval_ms >= found.session_timeout_ms:
        raise refusal("heartbeat.interval.ms", "has to be lower than session.timeout.ms")
    return found, client_configs(worker.client_settings(), worker.client_id(_CLIENT_ID_SUFFIX))
