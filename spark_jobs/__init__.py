"""PySpark jobs of connect-share, and DataFrames over its topics and backups: :func:`read_kafka`, :func:`decode`.

PySpark is imported when it is needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from spark_jobs.decoded import decode
    from spark_jobs.record_files import read_record_files
    from spark_jobs.sources import read_kafka

__all__ = ["decode", "read_kafka", "read_record_files"]

_HOMES: Final = {"decode": "decoded", "read_kafka": "sources", "read_record_files": "record_files"}


def __getattr__(name: str) -> Any:
    """Import what is asked for; ``UsageError`` says what to install when Spark is not there."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from spark_jobs.session import require_spark

    require_spark()
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
