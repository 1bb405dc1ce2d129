"""No regular expression of the product takes more than linear time where it is tried at one place, whatever it is given."""

from __future__ import annotations

import importlib
import pkgutil
import re
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import connect_share
import migrator
import spark_jobs

# Parts of what the expressions look for, repeated: so that they begin to match at every place.
PARTS = [
    *' a0\n:/.-_=\\{["',
    *("\r\n", "${", "0.", "a.", "a-0", "a-", "key", "://a:", "//a/", "-----BEGIN ", "-----BEGIN A-----"),
    *("x.y-stray", "password", '"a', "/brokers/topics/a", " = ", "\ud800"),
]
LENGTH = 50_000


def every_pattern() -> Iterator[tuple[str, re.Pattern[Any]]]:
    for package in (connect_share, migrator, spark_jobs):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if not module.name.endswith("__main__"):
                for name, found in vars(importlib.import_module(module.name)).items():
                    for one in found.values() if isinstance(found, dict) else [found]:
                        if isinstance(one, re.Pattern):
                            yield f"{module.name}.{name}", one


def test_every_pattern_takes_linear_time() -> None:
    patterns = {(one.pattern, one.flags): (name, one) for name, one in every_pattern()}
    assert len(patterns) > 30
    slow = []
    for name, pattern in patterns.values():
        for part, begin in product(PARTS, ("", "${")):
            text: Any = begin + part * (LENGTH // len(part)) + "\0"
            if isinstance(pattern.pattern, bytes):
                text = text.encode("utf-8", "replace")
            began_s = time.process_time()
            pattern.match(text)
            pattern.fullmatch(text)
            # Milliseconds; quadratic time takes seconds.
            if time.process_time() - began_s > 1:
                slow.append((name, part))
    assert not slow
