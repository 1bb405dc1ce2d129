"""The error of a read that ends at its deadline, also on a busy machine."""

from __future__ import annotations

from collections.abc import Callable

from connect_share.errors import BrokerTimeoutError, ReadToEndTimeoutError


def error_at_deadline(
    read: Callable[[float], object], accept: Callable[[ReadToEndTimeoutError], bool]
) -> ReadToEndTimeoutError:
    """Read with a short limit, then with longer ones until the read came as far as it can.

    Args:
        read: given the limit in seconds.
        accept: whether the error is that of a read that came as far as it can.
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
            raise AssertionError("the read ended before its deadline")
    raise AssertionError(f"another error than expected: {last!r}")
