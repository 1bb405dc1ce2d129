"""Reading Kafka into Spark: a Python data source over the library's own reader, in Arrow batches.

The ranges are fixed on the driver and one range is one task. There is no filter push-down: in Spark 4.3 it changes the
parent DataFrame too.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from connect_share.records import Headers, OffsetRange
from connect_share.worker_config.client_settings import ClientSettings, Isolation
from spark_jobs.arrow_batches import arrow_batches
from spark_jobs.schemas import KAFKA_SOURCE
from spark_jobs.session import warn_of_missing_protection

_log = logging.getLogger(__name__)

NAME: Final = "connect_share_kafka"
# Spark hides the values of options whose name has "secret" in it from plans and its user interface.
_SETTINGS: Final = "settings_secret"


class RangePartition(InputPartition):
    """One range of one topic partition; ``None`` for the single empty task of an empty list."""

    def __init__(self, offset_range: OffsetRange | None) -> None:
        super().__init__(None)
        self.offset_range = offset_range


class KafkaReader(DataSourceReader):
    """Reads the ranges given in the options."""

    def __init__(self, options: dict[str, str]) -> None:
        self._ranges = [OffsetRange(*entry) for entry in json.loads(options["ranges"])]
        self._isolation = Isolation(options["isolation"])
        self._client_id = options["client_id"]
        self._settings = json.loads(base64.b64decode(options[_SETTINGS]))

    def partitions(self) -> Sequence[InputPartition]:
        """One task a range; Spark wants at least one."""
        return [RangePartition(offset_range) for offset_range in self._ranges] or [RangePartition(None)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield Arrow record batches of :data:`KAFKA_SOURCE`."""
        from connect_share.log import read_batches

        if not isinstance(partition, RangePartition) or partition.offset_range is None:
            return
        batches = read_batches(
            ClientSettings(self._settings),
            [partition.offset_range],
            isolation=self._isolation,
            client_id=self._client_id,
        )
        yield from arrow_batches(batches, _columns)


def _columns(batch: Sequence[Any]) -> list[list[Any]]:
    from connect_share.client import headers_of

    headers = [headers_of(message) for message in batch]
    for message, found in zip(batch, headers, strict=True):
        if found is None:
            _log.warning(
                "%s[%d]@%d: the name of a header is not UTF-8; its headers are given as null",
                message.topic(),
                message.partition(),
                message.offset(),
            )
    return [
        [message.topic() for message in batch],
        [message.partition() for message in batch],
        [message.offset() for message in batch],
        [message.timestamp()[1] for message in batch],
        [message.key() for message in batch],
        [message.value() for message in batch],
        [_headers(found) for found in headers],
    ]


def _headers(headers: Headers | None) -> list[dict[str, Any]] | None:
    return [{"key": name, "value": value} for name, value in headers] if headers else None


class KafkaSource(DataSource):
    """Data source ``connect_share_kafka``; use :func:`read_kafka`."""

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Always :data:`KAFKA_SOURCE`."""
        return KAFKA_SOURCE

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - the schema is fixed
        """Make the reader."""
        return KafkaReader(dict(self.options))


def read_kafka(
    spark: SparkSession,
    settings: ClientSettings,
    ranges: Sequence[OffsetRange],
    *,
    isolation: Isolation,
    client_id: str,
) -> DataFrame:
    """Give the records of half-open ranges as a DataFrame, one task a range.

    Columns:
        out: :data:`KAFKA_SOURCE`.
    """
    warn_of_missing_protection(spark)
    spark.dataSource.register(KafkaSource)
    secret = base64.b64encode(json.dumps(dict(settings.properties)).encode()).decode("ascii")
    return (
        spark.read.format(NAME)
        .option("ranges", json.dumps([list(offset_range) for offset_range in ranges]))
        .option("isolation", isolation.value)
        .option("client_id", client_id)
        .option(_SETTINGS, secret)
        .load()
    )
