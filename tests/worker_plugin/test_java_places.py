"""A key in several partitions, read by Java through the interceptor and by Python: many random layouts."""

from __future__ import annotations

import json
import random
from base64 import b64decode, b64encode
from itertools import product

import pytest

from tests.lab.plugin_jar import OLDEST_KAFKA
from tests.support.long_forms import LONG
from tests.unit.model.test_places import READERS, counting, mixed, offset_records, sealed_records, status_records
from tests.worker_plugin.conftest import RunJava

pytestmark = pytest.mark.xdist_group("worker_plugin")

LAYOUTS = 10_000 if LONG else 1_000
"""Of each kind."""
RECORDS = {"offsets": offset_records, "sealed offsets": sealed_records, "statuses": status_records}


@pytest.mark.parametrize("version", [OLDEST_KAFKA, *(["4.3.1"] if LONG else [])])
def test_java_follows_the_rule(run_java: RunJava, version: str) -> None:
    rng, given, wanted = random.Random(82), [], []
    for reader, number in product(RECORDS, range(LAYOUTS)):
        read, key_of = READERS[reader]
        keys = f"1:{b64encode(bytes(32)).decode()}" if reader.startswith("sealed") else None
        key, partitions = key_of(number % 10), rng.randrange(1, 7)
        entries = [
            (rng.randrange(partitions), rng.randrange(1, 7), rng.choice((None, 1, 2, 3)))
            for _ in range(rng.randrange(1, 9))
        ]
        again = [entry for entry in entries if entry[0] == entries[0][0]]
        order = [*mixed(entries, rng), *again[rng.randrange(1, 2 * len(again) + 1) :]]  # its end may be read again
        records = [
            (each.partition, each.timestamp_ms, key.decode(), each.value and b64encode(each.value).decode())
            for each in RECORDS[reader](key, order)
        ]
        topic = "shared-status" if reader == "statuses" else "shared-offsets"
        given.append(json.dumps({"topic": topic, "partitions": partitions, "keys": keys, "records": records}))
        wanted.append(counting(key, partitions, entries, sealed=keys is not None)[2])
        assert read(key, partitions, order) == wanted[-1]

    done = run_java("connectshare.PlaceAnswers", version, given="\n".join(given))

    assert done.returncode == 0, done.stderr[-2_000:]
    values = [json.loads(b64decode(json.loads(line) or "") or "{}") for line in done.stdout.splitlines()]
    answers = [value.get("n", value.get("generation")) for value in values]
    assert [each for each in zip(given, answers, wanted, strict=True) if each[1] != each[2]][:3] == []
