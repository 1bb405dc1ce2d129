"""Spark's engines: an extra that is imported only when ``--engine spark`` asks for it."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from connect_share.errors import UsageError


def spark_job(name: str) -> Any:
    """Return a module of the Spark jobs.

    Raises:
        UsageError: the extra ``spark`` is not installed.
    """
    if importlib.util.find_spec("pyspark") is None or importlib.util.find_spec("spark_jobs") is None:
        raise UsageError("--engine spark needs Spark: pip install 'connect-share[spark]', or use --engine local")
    return importlib.import_module(f"spark_jobs.{name}")
