"""Which program a properties file is of, where it is no distributed worker's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

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
