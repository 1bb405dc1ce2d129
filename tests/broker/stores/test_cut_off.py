"""Puts that an exception or a cancellation cuts off: the store goes on, and what was acknowledged is written once."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pytest

from connect_share import AsyncConnectStorage
from connect_share.errors import WriteError
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from tests.support.long_forms import LONG

MOMENTS: Final = 10_000 if LONG else 200
CUT_OFF: Final = (KeyboardInterrupt, TimeoutError)  # what handlers of signals raise: Ctrl-C, a time limit
Soon = Callable[[], float]


def put(storage: Any, writer: Any, number: int) -> Any:
    """Begin a put of one of three kinds; return what is waited for, if the storage has not waited."""
    value = f"v{number}"
    if number % 3 == 0:
        return storage.config.put_connector_config("c", {"n": value})
    if number % 3 == 1:
        return storage.offsets.set({b'group-a.["c",{}]': f'{{"at":"{value}"}}'.encode()})
    writer.cancel_flush()
    writer.offset({"file": "a"}, {"at": value})
    return writer.flush(120)


def by_signals(worker: WorkerConfig, choose: random.Random, soon: Soon, whole: dict[str, bool]) -> None:
    def cut_off(*_: object) -> None:
        raise choose.choice(CUT_OFF)

    with ConnectStorage(worker) as storage:
        writer = storage.offset_writer("w")
        signal.signal(signal.SIGALRM, cut_off)
        for moment in range(MOMENTS):
            with suppress(*CUT_OFF, WriteError):
                try:
                    whole[f"v{moment}"] = False
                    signal.setitimer(signal.ITIMER_REAL, soon())
                    done = put(storage, writer, moment)
                    assert done.result(120) is None if moment % 3 == 1 else done is not False
                    whole[f"v{moment}"] = True
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            assert storage.failed is None


def by_cancellations(worker: WorkerConfig, _: random.Random, soon: Soon, whole: dict[str, bool]) -> None:
    async def body() -> None:
        async with AsyncConnectStorage(worker) as storage:
            writer = await storage.offset_writer("w")
            for moment in range(MOMENTS):
                whole[f"v{moment}"] = False
                with suppress(TimeoutError, WriteError):
                    assert await asyncio.wait_for(put(storage, writer, moment), soon()) is not False
                    whole[f"v{moment}"] = True
                assert storage.failed is None

    asyncio.run(body())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Python drops what a finaliser raises
@pytest.mark.timeout(3_600, method="thread")  # the other method is a signal
@pytest.mark.parametrize("cut_off", [by_signals, by_cancellations])
def test_puts_that_are_cut_off_at_any_moment(shared: Any, cut_off: Callable[..., None]) -> None:
    choose, whole = random.Random(1), dict[str, bool]()
    cut_off(shared.sharing(), choose, lambda: choose.choice((0.001, 0.02, 1, 100)) * choose.random() + 1e-6, whole)
    found = Counter(part for kind in ("config", "offset") for _, v in shared.read(kind) for part in str(v).split('"'))
    assert [value for value, returned in whole.items() if found[value] > 1 or (returned and not found[value])] == []
    # Who is cancelled only stops waiting; a flush may be cancelled in earnest.
    goes_on = [f"v{at}" for at in range(MOMENTS) if at % 3 < 2 and cut_off is by_cancellations]
    assert [value for value in goes_on if not found[value]] == []
    print(cut_off.__name__, Counter(whole.values()), sum(not whole[value] and found[value] > 0 for value in whole))
    assert min(Counter(whole.values()).values()) > MOMENTS / 10
