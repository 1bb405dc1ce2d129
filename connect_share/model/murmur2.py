"""The partition of a key: the partitioner of the Java clients.

librdkafka places keys elsewhere by default. A key in two partitions is never merged by compaction, and
which copy wins after a reload is chance; so every producer here uses ``murmur2_random`` and everything
that checks placement uses this function.
"""

from __future__ import annotations

import struct
from typing import Final

_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the unsigned 32-bit hash of ``data``. Source: ``org.apache.kafka.common.utils.Utils.murmur2``.

    >>> murmur2(b"group-a.connector-sink")
    1850653483
    """
    length = len(data)
    h = 0x9747B28C ^ length
    for word in struct.unpack_from(f"<{length >> 2}I", data):
        k = word * _M & _MASK
        h = (h * _M ^ (k ^ k >> 24) * _M) & _MASK
    if rest := data[length & ~3 :]:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for(key: bytes, partitions: int) -> int:
    """Return the partition (0-based) in which a Java producer puts ``key``.

    >>> partition_for(b'["sink",{"file":"in.txt"}]', 25)
    2
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions
