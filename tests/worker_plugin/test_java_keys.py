"""The key rule in Java and in Python: the shared vectors, and many random cases answered by both."""

from __future__ import annotations

import json
import random

import pytest

from connect_share.errors import InvalidClusterGroupIdError
from connect_share.model.keys import KEY_PREFIXES, ClusterGroupId, is_original_key, own_key
from connect_share.model.records import TopicType
from tests.lab.plugin_jar import OLDEST_KAFKA
from tests.support.key_vectors import PATH
from tests.worker_plugin.conftest import RunJava

pytestmark = pytest.mark.xdist_group("worker_plugin")

PIECES = [
    *(prefix.decode() for prefix in KEY_PREFIXES),
    *(prefix.decode()[:-1] for prefix in KEY_PREFIXES),
    *("session-key", "com.acme", "com.acme.orders", "G", "a", "0", "_", "x.y", "connect-cluster", "["),
    *('["x",{}]', "null"),
    *(".", ".", ".", ".", "-", "-", "..", "[[", "]"),
    *(" ", "\n", "\0", "\t", "/", ":", "ä", "日本", "😀", "\ufeff", "\u212a", "Ａ", "\x7f", "\x80", "\\", "'", '"'),
]
LEGAL_PIECES = [piece for piece in PIECES if not set(piece) - set("abcdefghijklmnopqrstuvwxyzACDEGKL0._-")]
CASES = 20_000


def random_group(rng: random.Random) -> str:
    pieces = PIECES if rng.random() < 0.1 else LEGAL_PIECES
    group = "".join(rng.choices(pieces, k=rng.choice((0, 1, 1, 2, 2, 3, 4))))
    return group + "\ud800" if rng.random() < 0.01 else group


def random_key(rng: random.Random, group: str) -> bytes:
    text = "".join(rng.choices(PIECES, k=rng.choice((0, 1, 1, 2, 3, 5))))
    start = rng.choice(("", group, group + ".", group + ".", group + ".", group + "..", group[:-1], group + ".a."))
    key = bytearray((start + text).encode(errors="surrogatepass"))
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        at = rng.randrange(len(key) + 1)
        match rng.randrange(3):
            case 0:
                key[at:at] = bytes([rng.randrange(256)])
            case 1:
                key[at : at + 1] = b""
            case _:
                key[at : at + 1] = bytes([rng.choice((0, 0x2E, 0x2D, 0x5B, 0x80, 0xC3, 0xED, 0xF0, 0xFF))])
    return bytes(key)


def python_answer(topic_type: TopicType, group: str, key: bytes) -> str:
    try:
        legal = ClusterGroupId(group)
    except InvalidClusterGroupIdError as exc:
        return str(exc).split("cannot be a cluster group id: ")[1].removesuffix("; choose another group.id")
    own = own_key(topic_type, key, legal)
    return ("foreign" if own is None else f"own {own.hex()}") + (
        " original" if is_original_key(topic_type, key) else ""
    )


def test_java_answers_as_python(run_java: RunJava) -> None:
    rng = random.Random(1173)
    cases = []
    for _ in range(CASES):
        group = random_group(rng)
        cases.append((rng.choice(list(TopicType)), group, random_key(rng, group)))
    lines = [json.dumps({"type": kind.value, "group": group, "key_hex": key.hex()}) for kind, group, key in cases]

    done = run_java("connectshare.KeyAnswers", OLDEST_KAFKA, str(PATH), given="\n".join(lines))

    assert done.returncode == 0, done.stderr[-2_000:]
    answers = done.stdout.splitlines()
    expected = [python_answer(*case) for case in cases]
    assert len(answers) == len(expected)
    assert [pair for pair in zip(cases, answers, expected, strict=True) if pair[1] != pair[2]][:5] == []
    # All kinds of answers occur, often enough to mean something.
    for kind in ("it is empty", "only the", "it starts", "after a dot", "foreign", "foreign original", "own"):
        assert sum(answer.startswith(kind) for answer in answers) > 50, kind
