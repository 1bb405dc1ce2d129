"""Files of records: Avro object files that hold Kafka records exactly, in sections; ``docs/backup-format.md``.

The only module that imports fastavro. Writing and reading take the memory of a block, whatever the file's size. A file
bears its name only when it is whole; its header says how many records it holds and the hash of the file, header included, so
that a file that was cut at a block, or changed anywhere, is recognised. Format 1 had no header in its hash.

The values of an encrypted file are sealed with the key ring of a worker file, each for its place. Topic, partition, offset
and key are bound to each value, behind a text that no key of a topic begins with: a value of a file opens nowhere else, not
in another record and not on a topic.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import IO, Any, Final

import fastavro
import fastavro.schema
import fastavro.write

from connect_share.errors import ConfigError, RecordFileError
from connect_share.files import lock, open_regular, open_to_lock, replacing, writing
from connect_share.model.records import Record, TopicType
from connect_share.sealing import KEYS_PROPERTY, KeyRing, Refusal
from connect_share.sealing.cipher import Cipher, Opened, key_id

_BLOCK_BYTES: Final = 1 << 18
# Level 1 takes a third of the time of the default and a tenth more room.
_DEFLATE_LEVEL: Final = 1


RECORD_FILE_FORMAT: Final = "connect-share/records/2"
_FORMAT_WITHOUT_HEADER: Final = "connect-share/records/1"
SCHEMA: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Record",
    "namespace": "connect_share",
    "doc": "One Kafka record. A null value is a tombstone, an empty one is not.",
    "fields": [
        {"name": "topic", "type": "string"},
        {"name": "partition", "type": "int"},
        {"name": "offset", "type": "long"},
        {"name": "timestamp_ms", "type": "long", "doc": "milliseconds since the epoch, -1 when there is none"},
        {"name": "key", "type": ["null", "bytes"]},
        {"name": "value", "type": ["null", "bytes"]},
        {
            "name": "headers",
            "doc": "in order, names may repeat",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Header",
                    "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": ["null", "bytes"]}],
                },
            },
        },
    ],
}

FORMAT_KEY: Final = "connect-share.format"
ABOUT_KEY: Final = "connect-share.about"
SUMS_KEY: Final = "connect-share.sums"

_PARSED: Final = fastavro.parse_schema(SCHEMA)
_CANONICAL: Final = fastavro.schema.to_parsing_canonical_form(SCHEMA)
_NUMBER_ROOM: Final = 10**19 - 1
_TEMPORARY: Final = re.compile(r"\..+\.[a-z0-9_]{8}")
"""The names that ``tempfile.mkstemp`` gives here."""
_HEADER_BYTES: Final = 4096
# Stands for the hash while it is computed, as it is part of what is hashed.
_NO_HASH: Final = "0" * 64
_MARKER: Final = bytes(16)
"""Ends the blocks of an encoder; a file has its own."""


def _avro_writer(output: IO[bytes], metadata: Mapping[str, str], marker: bytes) -> Any:
    """Return a writer of the library, which has written the header."""
    return fastavro.write.Writer(
        output,
        _PARSED,
        codec="deflate",
        sync_interval=_BLOCK_BYTES,
        metadata=dict(metadata),
        sync_marker=marker,
        compression_level=_DEFLATE_LEVEL,
    )


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """Encoded and compressed records, as they go into a file of records: a block of Avro without the marker at its end."""

    records: int
    data: bytes = field(repr=False)


class RecordEncoder:
    """Makes blocks of records; ``name`` is that of the file, for errors."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._records = 0
        self._output = io.BytesIO()
        self._writer = _avro_writer(self._output, {}, _MARKER)
        self._block()  # leaves out the header: the file has one

    def add(  # noqa: PLR0917 - the fields of a record in their order
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[tuple[str, bytes | None]] | None,
    ) -> RecordBlock | None:
        """Add one record; return a block when it is full. ``RecordFileError``: it is no record."""
        try:
            if not -(1 << 31) <= partition < 1 << 31:
                raise OverflowError  # noqa: TRY301 - the library writes it
            self._writer.write(
                {
                    "topic": topic,
                    "partition": partition,
                    "offset": offset,
                    "timestamp_ms": timestamp_ms,
                    "key": key,
                    "value": value,
                    "headers": [{"key": name, "value": content} for name, content in headers] if headers else (),
                }
            )
        except (AttributeError, TypeError, ValueError, OverflowError):
            # Its text would show the record.
            raise RecordFileError(
                f"{self._name}: {topic!r}[{partition}]@{offset} does not fit into the file's schema", path=self._name
            ) from None
        self._records += 1
        return self._block() if self._output.tell() else None

    def rest(self) -> RecordBlock | None:
        """Return a block of what was added since the last one, if that is anything."""
        self._writer.flush()
        return self._block() if self._records else None

    def _block(self) -> RecordBlock:
        block = RecordBlock(self._records, self._output.getvalue()[: -len(_MARKER)])
        self._records = 0
        self._output.seek(0)
        self._output.truncate()
        return block


@dataclass(frozen=True, slots=True)
class WrittenRecordFile:
    """A file that was written to its end.

    Attributes:
        sections: how many records each section has.
        sha256: of the whole file.
    """

    path: Path
    records: int
    sections: tuple[int, ...]
    size_bytes: int
    sha256: str


def write_record_file(
    path: Path, about: Mapping[str, Any], sections: Sequence[Iterable[RecordBlock]], *, alone: bool = True
) -> WrittenRecordFile:
    """Write blocks of records, section after section, under a temporary name; a whole file gets its own.

    The file is made with mode 0600: keys and values hold secrets. A file of that name is replaced. ``about`` says what the
    file is, as JSON in its header. ``alone``: else other machines write in this folder, whose locks may not be seen here.

    Raises:
        RecordFileError: it cannot be written; nothing new bears its name then.
    """
    if alone:
        remove_half_written(path.parent)
    with contextlib.ExitStack() as stack:
        with writing_records(path):
            file = stack.enter_context(replacing(path))
        with contextlib.suppress(OSError):  # not every file system can
            lock(file)
        # The sums are known at the end only: JSON may be followed by blanks, so room for them is left in the header.
        counts = [0] * max(len(sections), 1)
        room = len(_sums([_NUMBER_ROOM] * len(counts), _NO_HASH))
        marker, about_json = os.urandom(16), json.dumps(about, sort_keys=True)
        metadata = {FORMAT_KEY: RECORD_FILE_FORMAT, ABOUT_KEY: about_json, SUMS_KEY: " " * room}
        with writing_records(path):
            _avro_writer(file, metadata, marker)
            file.flush()
            header_bytes = file.tell()
        for number, blocks in enumerate(sections):
            for block in blocks:
                counts[number] += block.records
                with writing_records(path):
                    file.write(block.data)
                    file.write(marker)
        with writing_records(path):
            file.flush()
            file.seek(0)
            place = file.read(header_bytes).rindex(b" " * room)  # the last entry of ours
            for digest in (_NO_HASH, None):
                sums = _sums(counts, digest or _hash(file, 0))
                file.seek(place)
                file.write(sums.ljust(room).encode("ascii"))
            whole, size = _hash(file, 0), file.seek(0, os.SEEK_END)
            stack.close()
    return WrittenRecordFile(path, sum(counts), tuple(counts), size, whole)


def writing_records(path: Path) -> contextlib.AbstractContextManager[None]:
    """Raise as ``RecordFileError`` that a file of records, or a folder of them, cannot be written."""
    return writing(path, partial(RecordFileError, path=str(path)))


def remove_half_written(folder: Path) -> None:
    """Remove what writers of record files that were killed have left in a folder: it holds secrets."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if _TEMPORARY.fullmatch(path.name) is not None:
                with contextlib.suppress(OSError), open_to_lock(path) as file:
                    if FORMAT_KEY.encode() in file.read(_HEADER_BYTES):
                        lock(file)  # who writes it has locked it
                        path.unlink()


class RecordFile:
    """A file of records that is there; opening reads its header only, :meth:`check` whether that is what was written.

    Attributes:
        about: what the writer said of it.
        sections: how many each section has.

    Raises:
        RecordFileError: it is missing, or no such file.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        with self._explained(), open_regular(self.path) as file:
            reader = fastavro.reader(file)
            metadata = reader.metadata
            if metadata.get(FORMAT_KEY) not in (RECORD_FILE_FORMAT, _FORMAT_WITHOUT_HEADER):
                raise RecordFileError(
                    f"{self.path} is an Avro file, but none of {RECORD_FILE_FORMAT}", path=str(self.path)
                )
            if fastavro.schema.to_parsing_canonical_form(reader.writer_schema) != _CANONICAL:
                raise RecordFileError(f"{self.path} has another schema than files of records", path=str(self.path))
            self._whole = metadata[FORMAT_KEY] == RECORD_FILE_FORMAT
            self.about: dict[str, Any] = json.loads(metadata[ABOUT_KEY])
            self._sums: str = metadata[SUMS_KEY]
            sums = json.loads(self._sums)
            self.sections: tuple[int, ...] = tuple(int(count) for count in sums["sections"])
            self._sha256: str = sums["sha256"]
            self._header_bytes = file.tell()

    @property
    def records(self) -> int:
        """Number of records in the file."""
        return sum(self.sections)

    def check(self) -> None:
        """Check that the file is what was written, else ``RecordFileError``; reads it to its end."""
        with self._explained(), open_regular(self.path) as file:
            header = file.read(self._header_bytes)
            if self._whole:
                bare = self._sums.replace(self._sha256, _NO_HASH).encode()
                place = header.rindex(self._sums.encode())
                header = header[:place] + bare + header[place + len(bare) :]
            if _hash(file, self._header_bytes, header if self._whole else b"") != self._sha256:
                raise self._damaged()

    def read(self) -> Iterator[Record]:
        """Yield all records, exactly as they were written, in order.

        Of a damaged file (``RecordFileError``) records may have been given before.
        """
        for _, record in self.read_sections():
            yield record

    def read_sections(self) -> Iterator[tuple[int, Record]]:
        """Yield all records with the number of their section, as :meth:`read`."""
        sections = chain.from_iterable(repeat(section, count) for section, count in enumerate(self.sections))
        with self._explained(), open_regular(self.path) as file:
            try:
                for section, row in zip(sections, fastavro.reader(file), strict=True):
                    yield section, _record(row)
            except ValueError:  # more or fewer records, or some that are none
                raise self._damaged() from None

    def _damaged(self) -> RecordFileError:
        return RecordFileError(
            f"{self.path} is damaged: it is not what was written, {self.records} records; use another copy of it",
            path=str(self.path),
        )

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except RecordFileError:
            raise
        except FileNotFoundError:
            raise RecordFileError(f"{self.path} does not exist", path=str(self.path)) from None
        except OSError as error:
            raise RecordFileError(f"{self.path} cannot be read: {error.strerror}", path=str(self.path)) from error
        except Exception as error:  # noqa: BLE001 - the library raises what its parts raise, zlib included
            # Its own text may show parts of records.
            raise RecordFileError(
                f"{self.path} is damaged or no file of records ({type(error).__name__}); use another copy of it",
                path=str(self.path),
            ) from None


def _record(row: Any) -> Record:
    return Record(
        row["topic"],
        row["partition"],
        row["offset"],
        row["timestamp_ms"],
        row["key"],
        row["value"],
        tuple((header["key"], header["value"]) for header in row["headers"]),
    )


def _sums(sections: list[int], sha256: str) -> str:
    return json.dumps({"records": sum(sections), "sections": sections, "sha256": sha256})


def _hash(file: io.BufferedIOBase, start: int, before: bytes = b"") -> str:
    """Return the SHA-256 of ``before`` and all bytes of a file from ``start`` on."""
    file.seek(start)
    return hashlib.file_digest(file, lambda: hashlib.sha256(before)).hexdigest()


_CONTEXT: Final = b"\0connect-share/export/1\0"


def _bound(topic: str, partition: int, offset: int, key: bytes | None) -> bytes:
    return _CONTEXT + f"{topic}\0{partition}\0{offset}\0".encode() + (key or b"")


class FileCipher:
    """Seals and opens the values of files.

    Args:
        keys: the first seals, all open.

    Raises:
        ConfigError: the library that does it is not installed.
    """

    def __init__(self, keys: KeyRing) -> None:
        self.key_id = keys.sealing_id
        self._ciphers = {topic_type: Cipher(keys, topic_type) for topic_type in TopicType}

    def seal(self, topic_type: TopicType, place: tuple[str, int, int], key: bytes | None, value: bytes | None) -> bytes:
        """Return a value, or the removal for ``None``, as it goes into the file."""
        return self._ciphers[topic_type].seal(_bound(*place, key), value, 0)

    def opened(self, topic_type: TopicType, record: Record) -> Record:
        """Return a record with its value as it was on the topic.

        Raises:
            ConfigError: the key is missing.
            RecordFileError: the value was not sealed for this place, or was changed.
        """
        place = _bound(record.topic, record.partition, record.offset, record.key)
        opened = self._ciphers[topic_type].open(place, record.value or b"")
        if isinstance(opened, Opened):
            return replace(record, value=opened.value)
        if opened is Refusal.UNKNOWN_KEY:
            raise missing_key(key_id(record.value or b""))
        raise RecordFileError(f"{record.place} in the file is not what was encrypted: use another copy")


def missing_key(number: int | None) -> ConfigError:
    """Return the error that says which key is needed."""
    return ConfigError(
        f"the file is encrypted with key {number}: give the worker file that key in {KEYS_PROPERTY}, behind those that are "
        "there; a group that is not to be sealed needs encryption=off beside it",
        property_name=KEYS_PROPERTY,
    )
