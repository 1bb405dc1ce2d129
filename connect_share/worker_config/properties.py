"""Java's ``.properties`` syntax, and which program a file is of that is no distributed worker's."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from connect_share.errors import ConfigError
from connect_share.files import read_bounded

_BLANK: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.?)", re.DOTALL)
# The name of a property and what separates it from the value.
_NAME: Final = re.compile(r"((?:[^\\=: \t\f]|\\.?)*)[ \t\f]*(?:[=:][ \t\f]*)?", re.DOTALL)


def load_properties(path: str | Path, encoding: str = "latin-1") -> dict[str, str]:
    r"""Read a properties file as a Java worker does: ISO-8859-1, everything else as ``\uXXXX``.

    That holds for a worker's own file; Java reads files of ``FileConfigProvider`` as UTF-8.

    Raises:
        ConfigError: the file cannot be read, or has a malformed ``\uXXXX``.

    Source: ``Utils.loadProps``, ``java.util.Properties.load(InputStream)``.
    """
    of_worker = encoding == "latin-1"
    data = read_whole(path, "; give the worker's properties file" if of_worker else "")
    if data.startswith(BOM_UTF8):
        data = data.removeprefix(BOM_UTF8)
        first = b"".join(data.splitlines()[:1]).strip()
        if first and not first.startswith((b"#", b"!")):
            raise ConfigError(
                f"{path}: line 1: a byte order mark (BOM) stands before the first property, and Java takes it for a part of "
                f"that name; save the file without it, as {'ISO-8859-1 or plain ASCII' if of_worker else encoding}"
            )
    try:
        return parse_properties(data.decode(encoding))
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path} is not {encoding} text at byte {exc.start}; save it as {encoding}") from None
    except ConfigError as exc:
        raise ConfigError(f"{path}: {exc}", property_name=exc.property_name) from exc


def read_whole(
    path: str | Path, remedy: str = "", *, most_bytes: int = 16 << 20, property_name: str | None = None
) -> bytes:
    """Return the content of a file that a person has written, or of a pipe.

    Raises:
        ConfigError: it cannot be read, or is longer than that; ends with the remedy.
    """

    def refused(name: object, why: object) -> ConfigError:
        return ConfigError(f"cannot read {name}: {why}{remedy}", property_name=property_name)

    try:
        return read_bounded(Path(path), most_bytes)
    except OSError as exc:
        raise refused(path, exc.strerror or exc) from exc
    except ValueError:
        raise refused(repr(str(path)), "no file can have such a name") from None


def parse_properties(text: str) -> dict[str, str]:
    r"""Parse properties; the last of several values for a name wins.

    Comments (``#``, ``!``), separators ``=``, ``:`` or white space, continued lines, ``\t \n \r \f \uXXXX``.
    """
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        name = _NAME.match(line)
        assert name is not None  # noqa: S101 - it matches the empty text too
        try:
            found[_unescape(name[1])] = _unescape(line[name.end() :])
        except ValueError as exc:
            raise ConfigError(f"line {number}: malformed \\uXXXX; write four hexadecimal digits") from exc
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    begun: list[str] = []
    first = 0
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, raw in enumerate(lines, 1):
        line = raw.lstrip(_BLANK)
        if not begun:
            if not line or line[0] in "#!":
                continue
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            # A line of a backslash alone begins no property: a comment or blank line may follow.
            if len(line) > 1:
                begun.append(line[:-1])
            continue
        yield first, "".join([*begun, line])
        begun = []
    if begun:
        yield first, "".join(begun)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    # Two escapes may be the halves of one character.
    return _ESCAPE.sub(_unescaped, text).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped == "u":
        raise ValueError(match[0])
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _ESCAPES.get(escaped, escaped)


DISTRIBUTED: Final = "give the properties file of a distributed worker"
_OTHER_FILES: Final = {
    r"connector\.class": f"this is the configuration of a connector; {DISTRIBUTED}",
    r"offset\.storage\.file\.filename": (
        "this is the file of a standalone worker, which has no topics to share; give that of a distributed worker"
    ),
    "clusters": f"this is the file of a dedicated MirrorMaker 2, whose workers cannot share topics; {DISTRIBUTED}",
    r"debezium\..*": f"this is the file of Debezium Server, which is no Connect worker; {DISTRIBUTED}",
    r"CONNECT_[A-Z_]+": (
        "these are environment variables of a container; give the properties file that the container has made of them "
        "(Confluent's images: /etc/kafka-connect/kafka-connect.properties)"
    ),
}
"""Files of other programs, by a name that only they have."""


def other_file(properties: Mapping[str, str]) -> str | None:
    """Return which file of another kind this is, and what to give; ``None``: none that is known."""
    for name, what in _OTHER_FILES.items():
        if any(re.fullmatch(name, each) for each in properties):
            return what
    if "key.converter" in properties and not {"group.id", "bootstrap.servers"} & set(properties):
        return (
            "this may be a worker configuration of MSK Connect, to which AWS adds group.id, brokers and topics; write a file "
            "with these, too"
        )
    return None
