"""Log records of the folds alone: threads of other libraries log at any time."""

from __future__ import annotations

import logging

import pytest


def logged(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return the records of ``connect_share.model``."""
    return [record for record in caplog.records if record.name.startswith("connect_share.model")]
