"""The engines that ``--engine`` names. Spark's are an extra and are imported only when they are asked for."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, cast

from connect_share.errors import UsageError
from migrator.copy.engine import LOCAL_ENGINE, Engine
from migrator.progress import Progress
from migrator.verify.verification import VerifyEngine


def copy_engine(name: str, progress: Progress) -> Engine | None:
    """Return the engine that copies; ``None`` stands for this process.

    Raises:
        UsageError: the extra ``spark`` is not installed.
    """
    return None if name == LOCAL_ENGINE else cast("Engine", _spark_job("apply_plan").copy_engine(progress))


def verify_engine(name: str, progress: Progress) -> VerifyEngine | None:
    """Return the engine that compares, as :func:`copy_engine`."""
    return None if name == LOCAL_ENGINE else cast("VerifyEngine", _spark_job("verify_plan").verify_engine(progress))


def _spark_job(name: str) -> Any:
    if importlib.util.find_spec("pyspark") is None or importlib.util.find_spec("spark_jobs") is None:
        raise UsageError("--engine spark needs Spark: pip install 'connect-share[spark]', or use --engine local")
    return importlib.import_module(f"spark_jobs.{name}")
