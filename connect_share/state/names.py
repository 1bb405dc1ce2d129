"""Reading names and task numbers out of keys, by Java's rules."""

from __future__ import annotations

import re
import unicodedata
from typing import Final, TypeGuard

from connect_share.records import ConnectorTaskId

_ENCODED_SURROGATE: Final = re.compile(b"\xed[\xa0-\xbf][\x80-\xbf]?")
_LONGEST_SHOWN: Final = 200
_INT32_MAX: Final = (1 << 31) - 1
_ZEROS: Final = (  # decimal digits of one UTF-16 unit with the value 0; a test looks for others
    "0٠۰߀०০੦૦୦௦౦೦൦෦๐໐༠၀႐០᠐᥆᧐᪀᪐᭐᮰᱀᱐꘠꣐꤀꧐꧰꩐꯰０"
)


def shown(text: str) -> str:
    """Return a name that comes from a topic or a caller as messages show it: quoted, escaped and cut."""
    quoted = repr(text[:_LONGEST_SHOWN])
    whole = len(text) <= _LONGEST_SHOWN and len(quoted) <= _LONGEST_SHOWN + 2
    return quoted if whole else f"{quoted[: _LONGEST_SHOWN + 1]}... ({len(text)} characters)"


def encodable(text: str) -> str:
    """Return text that UTF-8 and any JSON can hold: half a surrogate pair, which JSON can spell, becomes its escape."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def key_text(key: bytes) -> str:
    """Decode a key as Java's string deserializer does: invalid UTF-8 becomes U+FFFD, never an error."""
    # Java puts one such character for the two or three bytes of a surrogate, Python one for each.
    return _ENCODED_SURROGATE.sub(b"\xef\xbf\xbd", key).decode("utf-8", "replace")


def text_key(text: str) -> bytes:
    """Encode a key as Java's string serializer does: a lone surrogate becomes ``?``."""
    return text.encode("utf-8", "replace")


def parse_task_id(key: str, prefix_pieces: int) -> ConnectorTaskId | None:
    """Take connector and task number out of ``task-<connector>-<n>`` or ``status-task-<connector>-<n>``.

    Java's split on ``-`` drops trailing empty pieces, so trailing dashes vanish; the number may have a plus sign,
    leading zeros and any Unicode decimal digits, and has to fit into 32 bits.

    Args:
        key: the whole key.
        prefix_pieces: pieces the prefix takes, 1 for ``task-``, 2 for ``status-task-``.

    Returns:
        ``None`` when there is no such number. The connector may be the empty string.

    Source: ``KafkaConfigBackingStore.parseTaskId``, ``KafkaStatusBackingStore.parseConnectorTaskId``.
    """
    beginning, _, last = key.rstrip("-").rpartition("-")
    pieces = beginning.split("-", prefix_pieces) if last else []
    if len(pieces) <= prefix_pieces:
        return None
    number = _java_int(last)
    return None if number is None else ConnectorTaskId(pieces[prefix_pieces], number)


def _java_int(text: str) -> int | None:
    """Parse what ``Integer.parseInt`` does; there is no minus sign, the text was split on it."""
    digits = text.removeprefix("+")
    number = 0
    significant = digits.lstrip(_ZEROS)  # of which there may be a megabyte
    for digit in significant:
        # Java looks at UTF-16 units, so digits above U+FFFF are none.
        if not digit.isdecimal() or digit > "\uffff":
            return None
        number = number * 10 + unicodedata.decimal(digit)
        if number > _INT32_MAX:
            return None
    return number if digits else None


def to_int32(number: int) -> int:
    """Keep the low 32 bits, as Java's ``intValue`` does."""
    return ((number + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def is_integer(value: object) -> TypeGuard[int]:
    """Tell whether a parsed JSON value is an integer in Connect's sense (``1.0`` and ``true`` are not)."""
    return isinstance(value, int) and not isinstance(value, bool)
