"""What the folds of a test say, and nobody else: other libraries have threads that log whenever they like."""

from __future__ import annotations

import logging

import pytest


def logged(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Give the records of ``connect_share.state``."""
    return [record for record in caplog.records if record.name.startswith("connect_share.state")]
