"""What the contenders are called and how they look in every plot, so that a colour means the same everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

OURS: Final = "python"


@dataclass(frozen=True, slots=True)
class Look:
    """Number of the colour (from 1), and whether its line is dashed; the marker goes with the colour."""

    colour: int
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class _Contender:
    title: str
    label: str
    brief: str
    look: Look


_KNOWN: Final = {
    "python": _Contender("Python stores", "Python stores", "Python", Look(1)),
    "python-checkpoint": _Contender(
        "Python stores, from a checkpoint", "from a checkpoint", "checkpoint", Look(1, dashed=True)
    ),
    "java-jar": _Contender("Java stores with the sharing jar", "Java with the jar", "Java + jar", Look(3)),
    "java": _Contender("Java stores, plain keys", "Java, plain keys", "Java, plain", Look(2)),
    "java-foreign": _Contender(
        "Java stores, prefixed keys", "Java, prefixed keys", "Java, prefixed", Look(2, dashed=True)
    ),
    "plain-client": _Contender("plain confluent-kafka read, default settings", "plain client", "plain client", Look(4)),
    "librdkafka": _Contender(
        "bare librdkafka read, nothing done to the records", "bare librdkafka", "librdkafka", Look(6)
    ),
    "kcat": _Contender("kcat (C), one topic after another", "kcat", "kcat", Look(5)),
}
_ORDER: Final = tuple(_KNOWN)
_OTHER_COLOURS: Final = (4, 5, 6)


def normal_name(contender: str) -> str:
    """Give the contender's name as it is looked up here."""
    return contender.lower().replace("_", "-")


def contender_title(contender: str) -> str:
    """Name a contender in a table; one that is not known here by its own name."""
    known = _KNOWN.get(normal_name(contender))
    return known.title if known is not None else contender


def contender_label(contender: str) -> str:
    """Name a contender in a plot."""
    known = _KNOWN.get(normal_name(contender))
    return known.label if known is not None else contender


def contender_brief(contender: str) -> str:
    """Name a contender beside its curve, where there is little room."""
    known = _KNOWN.get(normal_name(contender))
    return known.brief if known is not None else contender


def contender_look(contender: str) -> Look:
    """Give a contender's colour; an unknown one's is the same in every run."""
    known = _KNOWN.get(normal_name(contender))
    return known.look if known is not None else Look(_OTHER_COLOURS[len(contender) % len(_OTHER_COLOURS)], dashed=True)


def contender_order(contender: str) -> tuple[int, str]:
    """Sort ours first, then the other known ones, then the rest by name."""
    name = normal_name(contender)
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)
