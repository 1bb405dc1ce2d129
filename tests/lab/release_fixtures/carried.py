"""Files of a fixture carried to another cluster: ids of topics and clusters are others there, and so are checksums.

The sums are computed as ``docs/backup-format.md`` describes them, not by the code that is to read the files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_AVRO_SUM: Final = re.compile(rb'(?<="sha256": ")[0-9a-f]{64}(?=")')
_CHECKPOINT: Final = re.compile(rb"(connect-share/checkpoint/\d+) bytes=\d+ sha256=[0-9a-f]{64}\n")


def carry_over(folder: Path, replaced: Mapping[str, str]) -> None:
    """Replace names in all files of a folder, and then the sums of these files wherever they are noted."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    sums: dict[str, str] = {}
    for path in files:
        before = path.read_bytes()
        after = _replaced(before, replaced)
        if path.suffix == ".avro":
            after = _with_sum_of_records(before, after)
        elif match := _CHECKPOINT.match(after):
            body = after[match.end() :]
            after = b"%b bytes=%d sha256=%b\n" % (match[1], len(body), _sha256(body).encode()) + body
        path.write_bytes(after)
        sums[_sha256(before)] = _sha256(after)
    for path in files:
        if path.suffix == ".json":
            path.write_bytes(_replaced(path.read_bytes(), sums))


def _replaced(data: bytes, replaced: Mapping[str, str]) -> bytes:
    for old, new in replaced.items():
        data = data.replace(old.encode(), new.encode())
    return data


def _with_sum_of_records(before: bytes, after: bytes) -> bytes:
    """Return a file of records with the sum of what it holds now: of the whole file, with zeros in place of the sum."""
    if len(before) != len(after):  # a header says how long its entries are
        raise ValueError("only names of the same length can be replaced in a file of records")
    bare = _AVRO_SUM.sub(b"0" * 64, after, count=1)
    return bare.replace(b"0" * 64, _sha256(bare).encode(), 1)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
