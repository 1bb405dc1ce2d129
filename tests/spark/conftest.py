"""One Spark session for all tests of this folder, which all run in one process."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_jobs.session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session with two cores and three attempts."""
    os.environ.pop("PYSPARK_GATEWAY_PORT", None)
    with spark_session("tests", master="local[2,3]") as session:
        yield session
