"""What Connect checks of any connector's configuration, whatever its class is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal

from connect_share.model.keys import BLANKS, has_control_character

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_LONGEST: Final = 4_000  # characters; Java takes leading zeros, and Python refuses numbers of more digits
_SHORT, _INT, _LONG = (1 << 15), (1 << 31), (1 << 63)

Check = Callable[[str | None], str | None]
"""Returns what is wrong with a value, ``None`` if nothing is."""


def _whole(limit: int, *, low: int | None = None, needed: bool = False) -> Check:
    def check(value: str | None) -> str | None:
        if value is None:
            return "has to be there" if needed else None
        number = int(value) if _INTEGER.fullmatch(value) and len(value) <= _LONGEST else None
        if number is None or not -limit <= number < limit:
            return "has to be a whole number"
        return None if low is None or number >= low else f"has to be {low} or more"

    return check


def _boolean(value: str | None) -> str | None:
    return None if value is None or value.lower() in ("true", "false") else "has to be true or false"


def _one_of(*allowed: str, any_case: bool = False) -> Check:
    def check(value: str | None) -> str | None:
        found = value.lower() if any_case and value is not None else value
        return None if found in allowed else f"has to be one of {', '.join(allowed)}"

    return check


def _unique(value: str | None) -> str | None:
    if value is None:
        return "has to be there"
    names = [name.strip(BLANKS) for name in value.split(",")] if value else []
    return None if len(set(names)) == len(names) else "has a name twice"


def _name(value: str | None) -> str | None:
    if value is None:
        return "has to be there"
    if not value:
        return "has to have a character"
    return "has a control character" if has_control_character(value) else None


_REQUIRED: Final = frozenset({"name", "connector.class"})
_COMMON: Final[Mapping[str, Check]] = {
    "name": _name,
    "connector.class": lambda _: None,
    "tasks.max": _whole(_INT, low=1, needed=True),
    "tasks.max.enforce": _boolean,
    "transforms": _unique,
    "predicates": _unique,
    "config.action.reload": _one_of("none", "restart"),
    "errors.retry.timeout": _whole(_LONG),
    "errors.retry.delay.max.ms": _whole(_LONG),
    "errors.tolerance": _one_of("none", "all"),
    "errors.log.enable": _boolean,
    "errors.log.include.messages": _boolean,
}
_OF_SOURCES: Final[Mapping[str, Check]] = {
    "topic.creation.groups": _unique,
    "exactly.once.support": _one_of("required", "requested", any_case=True),
    "transaction.boundary": _one_of("interval", "poll", "connector", any_case=True),
    "transaction.boundary.interval.ms": _whole(_LONG, low=0),
    "offsets.storage.topic": lambda value: "has to have a character" if value == "" else None,
}
_OF_SINKS: Final[Mapping[str, Check]] = {
    "errors.deadletterqueue.topic.replication.factor": _whole(_SHORT),
    "errors.deadletterqueue.context.headers.enable": _boolean,
}


def connector_config_errors(config: Mapping[str, str | None], kind: Literal["source", "sink"]) -> dict[str, str]:
    """Return what is wrong with a connector's configuration, by property; no error has a value in it.

    Checked is what Connect itself defines for sources and for sinks; not its plug-ins (converters, transformations,
    predicates), which only their classes can check, nor properties of the connector's own.

    >>> connector_config_errors({"name": "c", "connector.class": "X", "tasks.max": "0"}, "source")
    {'tasks.max': 'has to be 1 or more'}

    Source: ``ConnectorConfig``, ``SourceConnectorConfig``, ``SinkConnectorConfig`` of Kafka 4.3.
    """
    checks = {**_COMMON, **(_OF_SOURCES if kind == "source" else _OF_SINKS)}
    errors: dict[str, str] = {}
    for name, check in checks.items():
        if name in config:
            given = config[name]
            found = check(None if given is None else given.strip(BLANKS))
            if found is not None:
                errors[name] = found
        elif name in _REQUIRED:
            errors[name] = "is missing"
    return errors if kind == "source" else errors | _topics_errors(config)


def _topics_errors(config: Mapping[str, str | None]) -> dict[str, str]:
    """Source: ``SinkConnectorConfig.validate``."""
    given = (config.get("topics") or "").strip(BLANKS)
    topics = [name.strip(BLANKS) for name in given.split(",")] if given else []
    regex = (config.get("topics.regex") or "").strip(BLANKS)
    if bool(topics) == bool(regex):
        why = "topics and topics.regex exclude each other" if topics else "topics or topics.regex has to be there"
        return dict.fromkeys(("topics", "topics.regex"), why)
    if len(set(topics)) != len(topics):
        return {"topics": "has a name twice"}
    dead_letters = (config.get("errors.deadletterqueue.topic.name") or "").strip(BLANKS)
    return {"topics": "has the topic of errors.deadletterqueue.topic.name"} if dead_letters in topics else {}
