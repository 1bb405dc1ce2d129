"""What is told at a deadline, also by a machine that was busy until then."""

from __future__ import annotations

from collections.abc import Callable

from connect_share.errors import BrokerTimeoutError, ReadToEndTimeoutError


def told_at_a_deadline(
    read: Callable[[float], object], accept: Callable[[ReadToEndTimeoutError], bool]
) -> ReadToEndTimeoutError:
    """Read with a short limit, and with a longer one if that was over before everything else had been read.

    Args:
        read: given the limit in seconds.
        accept: whether the error tells of a read that came as far as it can.
    """
    last: Exception | None = None
    for timeout_s in (0.5, 5.0, 50.0):
        try:
            read(timeout_s)
        except ReadToEndTimeoutError as error:
            if accept(error):
                return error
            last = error
        except BrokerTimeoutError as error:
            last = error
        else:
            raise AssertionError("nothing held it up")
    raise AssertionError(f"not what was to be told: {last!r}")
