"""Log lines of the libraries on stderr, one form for both programs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from connect_share.console.text import printable


class _EscapingFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


@contextmanager
def logs_on_stderr(program: str, names: Sequence[str], level: int) -> Iterator[None]:
    """Send log lines of these loggers to stderr, escaped; afterwards all is as before."""
    handler = logging.StreamHandler()
    handler.setFormatter(_EscapingFormatter(f"{program}: %(levelname)s %(name)s: %(message)s"))
    with ExitStack() as stack:
        for name in names:
            logger = logging.getLogger(name)
            stack.callback(_restore, logger, logger.handlers, logger.level, propagate=logger.propagate)
            logger.handlers, logger.propagate = [handler], False
            logger.setLevel(level)
        yield


def _restore(logger: logging.Logger, handlers: list[logging.Handler], level: int, *, propagate: bool) -> None:
    logger.handlers, logger.propagate = handlers, propagate
    logger.setLevel(level)
