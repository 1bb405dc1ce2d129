"""Every error a caller can meet, as one tree; ``topic_ids.errors`` adds ``TopicIdRepairError``.

A message says what happened, where (``topic[partition]@offset``) and what to do. It never holds a
configuration value, a session key or an offset value. The message is the only positional argument and
context is keyword-only with defaults, so every error survives pickling (Spark sends them home).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import ClassVar, Final


class ConnectShareError(Exception):
    """Root of all errors of this project."""

    retriable: bool = False
    says_what_is_done: bool = False
    exit_code: ClassVar[int] = 1


class UsageError(ConnectShareError):
    """The caller asked for something that can never work; nothing was read or written."""

    exit_code: ClassVar[int] = 2


class ConfigError(UsageError):
    """A property is missing, contradictory or has a wrong value; the message names the property."""

    def __init__(self, message: str, *, property_name: str | None = None) -> None:
        super().__init__(message)
        self.property_name = property_name


def refusal(name: str, text: str) -> ConfigError:
    """Return the error for a property that is missing or wrong; the text continues after its name."""
    return ConfigError(f"{name}{text}" if text.startswith(":") else f"{name} {text}", property_name=name)


class InvalidClusterGroupIdError(UsageError, ValueError):
    """The text cannot be a cluster group id: keys made with it could not be told apart from others."""


class NotStartedError(UsageError):
    """A method was called that needs ``start()`` first."""


@dataclass(eq=False, repr=False)
class RecordError(ConnectShareError):
    """One record cannot be understood."""

    message: InitVar[str]
    _: KW_ONLY
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None


class KeyFormatError(RecordError):
    """The key of a record is not one that Connect writes."""


class ValueFormatError(RecordError):
    """The value of a record, or a value to be written, is not what Connect expects (``DataException``)."""


class TaskCountError(RecordError):
    """A number of tasks in a topic is too large to act on: nothing was done for any of them."""


class UnreadableHeadersError(RecordError):
    """The name of a header is not UTF-8: the client cannot read it, so the record cannot be carried whole."""

    @classmethod
    def at(cls, topic: str, partition: int, offset: int) -> UnreadableHeadersError:
        """Return the error for one record."""
        return cls(
            f"{topic}[{partition}]@{offset}: the name of a header is not UTF-8, so the record cannot be carried whole: "
            "write its key again without that header, and wait until the topic was compacted",
            topic=topic,
            partition=partition,
            offset=offset,
        )


@dataclass(eq=False, repr=False)
class TopicError(ConnectShareError):
    """A topic is not as it has to be."""

    message: InitVar[str]
    _: KW_ONLY
    topic: str | None = None


class TopicMissingError(TopicError):
    """The topic does not exist and may not, or could not, be created."""


class LostTopicError(TopicMissingError):
    """The topic is gone, or was made anew, while others of its set have what belongs to it: it is lost, not empty."""


class TopicNotCompactedError(TopicError):
    """``cleanup.policy`` is not exactly ``compact``: records would be lost sooner or later."""


class PartitionCountError(TopicError):
    """The config topic has more than one partition, so its records have no order."""


class ReplicationFactorError(TopicError):
    """The replication factor asked for cannot be had; the topic was not created with fewer replicas."""


@dataclass(eq=False, repr=False, kw_only=True)
class OpenTransactionError(TopicError):
    """A transaction is open on the topic: what lies behind it cannot be read yet."""

    partition: int | None = None
    last_stable_offset: int | None = None
    end_offset: int | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class TopicRecreatedError(TopicError):
    """The topic was deleted and created again: its id is no longer the one that was recorded (KIP-516)."""

    old_id: str | None = None
    new_id: str | None = None


class BrokerError(ConnectShareError):
    """The broker, or the way to it, refused.

    Attributes:
        code: Kafka's error code, negative for errors of the client library itself.
        name: its name, such as ``TOPIC_AUTHORIZATION_FAILED``.
    """

    def __init__(
        self, message: str, *, code: int | None = None, name: str | None = None, retriable: bool = False
    ) -> None:
        super().__init__(message)
        self.code = code
        self.name = name
        self.retriable = retriable


class BrokerTimeoutError(BrokerError):
    """No answer within the time allowed."""


class BrokerUnavailableError(BrokerError):
    """No broker could be reached at the given address."""


class AuthorizationError(BrokerError):
    """The principal is not known, or may not do this; the message names the missing right."""


class FencedError(BrokerError):
    """Another producer with the same transactional id took over."""


class StoreError(ConnectShareError):
    """A backing store cannot do what was asked."""


@dataclass(eq=False, repr=False)
class ReadToEndTimeoutError(StoreError):
    """The log was not read to the end in time; nothing was lost, a later read goes on from ``position``.

    Attributes:
        blocked_by: cluster group of which the open transaction in the way claims to be, ``None`` if it claims none.
            Any writer of the topic can claim any: the broker knows the producer.
        transactional_id: what Connect gives the producer of such a transaction, if the key of its first record tells.
    """

    retriable = True
    message: InitVar[str]
    _: KW_ONLY
    topic: str | None = None
    partition: int | None = None
    position: int | None = None
    end_offset: int | None = None
    blocked_by: str | None = None
    transactional_id: str | None = None


class LogFailedError(StoreError):
    """The thread that follows the log has ended with an error; the store must be started again."""

    @classmethod
    def caused_by(cls, error: BaseException, what: str) -> LogFailedError:
        """Return what is to be raised in other threads: ``what`` has failed, and why."""
        failure = cls(f"{what}: {safe_text(error)}")
        failure.__cause__ = error
        return failure


class StoreClosedError(StoreError):
    """The store, or the reader on it, was stopped."""


class FlushInProgressError(StoreError):
    """An earlier flush of the same offset writer has not ended; nothing was taken from the buffer."""

    retriable: bool = True


class WriteError(StoreError):
    """A record was not acknowledged; whether it was written is not known unless the message says so."""


class PrivilegedWriteError(WriteError):
    """The exactly-once leader's producer was fenced, failed or took too long; claim write privileges again.

    Attributes:
        fenced: another producer has taken over, so another leader is active: claim again only if this one still leads.
    """

    def __init__(self, message: str, *, fenced: bool = False) -> None:
        super().__init__(message)
        self.fenced = fenced


class PlainTopicsError(StoreError):
    """Sharing is enabled, but the topics hold plain records only: this group was never migrated."""


class SealedGroupError(StoreError):
    """The worker file says nothing about sealing, but most of the group's configurations look sealed; nothing was written."""


class GroupMovedError(StoreError):
    """A plan has moved the group away from these topics; it runs elsewhere, and nothing was written."""


class LiveMembersError(StoreError):
    """Java workers of the same Connect group are alive: two writers would overwrite each other."""


class GroupProtocolError(ConnectShareError):
    """Bytes of the group coordinator are not those of a Connect worker, or what is to be sent does not fit."""


class GroupMembershipError(ConnectShareError):
    """This process is no member of its Connect group any more, or cannot become one."""


class RecordFileError(ConnectShareError):
    """A file of records is missing, damaged or no such file, or cannot be written; the message names it."""

    def __init__(self, message: str, *, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class WorkerPluginError(ConnectShareError):
    """The jar for Java workers is missing from this installation, or cannot be written where it is wanted."""


_LONGEST_LISTED: Final = 300
"""Names of groups and connectors come from keys, in which any writer of a topic can put a million characters."""


def listed(texts: Iterable[str], most: int = 20, *, separator: str = ", ", last: str = " and ") -> str:
    """Return texts for people, each cut; of more than ``most`` the first ones, and how many more there are."""
    every = list(texts)
    shown = [text if len(text) <= _LONGEST_LISTED else f"{text[:_LONGEST_LISTED]}..." for text in every[:most]]
    more = f"{last}{len(every) - most:,} more" if len(every) > most else ""
    return separator.join(shown) + more


def command_line(program: str, *words: object) -> str:
    """Return a command that a message or a finding prints, ready for bash; ``docs/remedies.md`` lists all that there are.

    Words in capitals stand for what only the reader knows.
    """
    return " ".join(_quoted(str(word)) for word in (program, *words))


def operand(word: str) -> tuple[str, ...]:
    """Return the last word of a command, which may begin with a dash."""
    return ("--", word) if word.startswith("-") else (word,)


def _quoted(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    return "$'{}'".format("".join(c if c.isprintable() and c not in "\\'" else f"\\U{ord(c):08x}" for c in word))


def safe_text(error: BaseException) -> str:
    """Return the message of an error if it is one of these, and so free of record contents; else only its type."""
    return str(error) if isinstance(error, ConnectShareError) else type(error).__name__


@contextmanager
def also_saying(text: str) -> Iterator[None]:
    """Add a sentence to the message of an error that is raised inside."""
    try:
        yield
    except ConnectShareError as error:
        error.args = (f"{error}. {text}", *error.args[1:])
        error.says_what_is_done = True
        raise


def raised_by(*checks: Callable[[], object]) -> Iterator[ConnectShareError]:
    """Yield the errors that checks raise."""
    for check in checks:
        try:
            check()
        except ConnectShareError as error:
            yield error


class MigrationError(ConnectShareError):
    """A migration cannot continue."""


class PlanRejectedError(MigrationError):
    """The move cannot be done safely as it stands; nothing was written."""


class DestinationNotEmptyError(PlanRejectedError):
    """The destination already holds records of the group that is to be moved there."""


class SourceChangedError(PlanRejectedError):
    """The source has other records than when the plan was made."""


class RestoreRejectedError(MigrationError):
    """The request does not say clearly what is to be restored, or it is not there; nothing was written."""


class PlanFileError(MigrationError):
    """A plan or manifest file is missing, damaged, of an unknown format, or cannot be written."""


class AlreadyAppliedError(MigrationError):
    """An earlier run of this plan wrote to the destination, wholly or in part."""


class CopyError(MigrationError):
    """A slice was not copied whole; the destination holds a part of it."""


class UnacknowledgedError(CopyError):
    """Acknowledgements are missing. Engines ask the destination what it has, and continue from there."""


class CutoverError(MigrationError):
    """Both sides are not equal, or the source still grows; nothing was fenced or sealed."""


class DestinationUsedError(CutoverError):
    """New workers have written at the destination since the copy: the old ones must not be started."""
