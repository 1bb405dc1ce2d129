"""Sealing in Java and in Python: the shared vectors, and many random cases answered by both."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from typing import Any

import pytest

from connect_share.errors import ConfigError
from connect_share.model.records import TopicType
from connect_share.sealing import KeyRing, Refusal
from connect_share.sealing.cipher import Cipher, Opened
from tests.lab.plugin_jar import OLDEST_KAFKA
from tests.support.sealed import VECTORS, key_text
from tests.worker_plugin.conftest import RunJava

pytestmark = pytest.mark.xdist_group("worker_plugin")

CASES = 1_000
GOOD = b64encode(bytes(range(32))).decode()
RINGS = (key_text(7), key_text(4_294_967_295, 7), key_text(7, 1, 2_147_483_648))
PIECES = ("7", "8", "0", "07", "+7", "4294967295", "4294967296", "99999999999", ":", ":", ":", ",", ",", " ", "\0", "=")
WRONG = (GOOD[:-1], GOOD[:-2] + "9=", *(b64encode(bytes(size)).decode() for size in (31, 33)))
TEXTS = (GOOD, GOOD, *WRONG, "ä", "-", "_")


def random_keys(rng: random.Random) -> str:
    if rng.random() < 0.2:
        return ",".join(key_text(rng.randrange(1, 9)) for _ in range(rng.choice((1, 2, 3))))
    if rng.random() < 0.5:
        entries = [f"{rng.choice(PIECES[:8])}:{rng.choice(TEXTS)}" for _ in range(rng.choice((1, 1, 2, 3)))]
        return rng.choice((",", ", ", " ,")).join(entries)
    return "".join(rng.choices((*PIECES, *TEXTS), k=rng.choice((0, 1, 2, 3, 4, 7))))


def python_ring(text: str) -> str:
    try:
        return ", ".join(map(str, KeyRing.parse(text).ids))
    except ConfigError as error:
        return str(error)


def python_answer(ring: str, topic_type: TopicType, key: bytes, sealed: bytes) -> str:
    opened = Cipher(KeyRing.parse(ring), topic_type).open(key, sealed)
    if isinstance(opened, Refusal):
        return opened.name
    return f"{opened.written_ms} {'removal' if opened.value is None else opened.value.hex()}"


def changed(rng: random.Random, sealed: bytes) -> bytes:
    found = bytearray(sealed)
    match rng.randrange(5):
        case 0:
            at = rng.randrange(len(found) * 8)
            found[at // 8] ^= 1 << at % 8
        case 1:
            del found[rng.randrange(len(found)) :]
        case 2:
            found += rng.randbytes(rng.randrange(1, 5))
        case 3:
            found[17:] = rng.randbytes(len(found) - 17)
    return bytes(found)


def test_java_answers_as_python(run_java: RunJava) -> None:
    rng = random.Random(68)
    asked: list[dict[str, Any]] = []
    expected: list[str | None] = []
    for _ in range(CASES):
        text = random_keys(rng)
        asked.append({"keys": text})
        expected.append(python_ring(text))
        ring, topic_type = rng.choice(RINGS), rng.choice(list(TopicType))
        key, value = rng.randbytes(rng.randrange(40)), rng.choice((None, b"", rng.randbytes(rng.randrange(200))))
        case: dict[str, Any] = {"keys": ring, "type": topic_type.value, "key": key.hex()}
        written_ms = rng.choice((0, 1_790_000_000_000, 2**63 - 1))
        sealed = changed(rng, Cipher(KeyRing.parse(rng.choice(RINGS)), topic_type).seal(key, value, written_ms))
        asked.append({**case, "sealed": sealed.hex()})
        expected.append(python_answer(ring, topic_type, key, sealed))
        asked.append({**case, "value": None if value is None else value.hex(), "written_ms": written_ms})
        expected.append(None)

    given = "\n".join(map(json.dumps, asked))
    done = run_java("connectshare.SealAnswers", OLDEST_KAFKA, str(VECTORS / "vectors.json"), given=given)

    assert done.returncode == 0, done.stderr[-2_000:]
    answers = done.stdout.splitlines()
    assert len(answers) == len(asked)
    for case, answer, wanted in zip(asked, answers, expected, strict=True):
        if wanted is not None:
            assert answer == wanted, case
            continue
        opened = Cipher(KeyRing.parse(case["keys"]), TopicType(case["type"])).open(
            bytes.fromhex(case["key"]), bytes.fromhex(answer)
        )
        assert opened == Opened(None if case["value"] is None else bytes.fromhex(case["value"]), case["written_ms"])
    # All kinds of answers occur, often enough to mean something.
    words_of_many = ("FORGED", "MALFORMED", "UNKNOWN_KEY", "removal", "4294967295")
    for words in (*words_of_many, "is empty", "has no colon", "has no key id"):
        assert sum(words in answer for answer in answers) > 20, words
    for words in ("has no base64", "has no whole base64", "again; an id names"):
        assert sum(words in answer for answer in answers) > 5, words
