"""Puts that an exception cuts off at any moment: the store goes on, and what it acknowledged is written once."""

from __future__ import annotations

import random
import signal
from collections import Counter
from contextlib import suppress
from typing import Any, Final

import pytest

from connect_share.errors import WriteError
from connect_share.storage import ConnectStorage
from tests.support.flushes import flush_offsets
from tests.support.long_forms import LONG

MOMENTS: Final = 10_000 if LONG else 200
CUT_OFF: Final = (KeyboardInterrupt, TimeoutError)  # what handlers of signals raise: Ctrl-C, a time limit


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Python drops what a finaliser raises
@pytest.mark.timeout(3_600, method="thread")  # the other method is a signal
def test_signals_at_any_moment(shared: Any) -> None:
    choose, whole = random.Random(1), dict[str, bool]()

    def cut_off(*_: object) -> None:
        raise choose.choice(CUT_OFF)

    def put(storage: ConnectStorage, writer: Any, number: int) -> None:
        value = f"v{number}"
        whole[value] = False
        if number % 3 == 0:
            storage.config.put_connector_config("c", {"n": value})
        elif number % 3 == 1:
            storage.offsets.set({b'group-a.["c",{}]': f'{{"at":"{value}"}}'.encode()}).result(30)
        else:
            writer.cancel_flush()
            flush_offsets(writer, ({"file": "a"}, {"at": value}))
        whole[value] = True

    with ConnectStorage(shared.sharing()) as storage:
        writer = storage.offset_writer("w")
        signal.signal(signal.SIGALRM, cut_off)
        for moment in range(MOMENTS):
            with suppress(*CUT_OFF, WriteError):
                try:
                    signal.setitimer(signal.ITIMER_REAL, choose.choice((0.001, 0.02, 1)) * choose.random() + 1e-6)
                    put(storage, writer, moment)
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            assert storage.failed is None
    found = Counter(part for kind in ("config", "offset") for _, v in shared.read(kind) for part in str(v).split('"'))
    assert [value for value, returned in whole.items() if found[value] > 1 or (returned and not found[value])] == []
    assert min(Counter(whole.values()).values()) > MOMENTS / 10
