"""Kafka as a Spark data source, over the library's own reader.

The ranges are fixed on the driver and one range is one task. There is no filter push-down: in Spark 4.3 it changes the
parent DataFrame too.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from connect_share.model.records import OffsetRange
from connect_share.worker_config.client_settings import ClientSettings, Isolation
from spark_jobs.record_source import RecordReader, RecordSource, Row, headers_column
from spark_jobs.session import warn_of_missing_protection

if TYPE_CHECKING:
    from connect_share.kafka.client import Message

_log = logging.getLogger(__name__)

NAME: Final = "connect_share_kafka"
# Spark hides the values of options whose name has "secret" in it from plans and its user interface.
_SETTINGS: Final = "settings_secret"


class KafkaReader(RecordReader):
    """Reads the ranges given in the options."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__([OffsetRange(*entry) for entry in json.loads(options["ranges"])])
        self._isolation = Isolation(options["isolation"])
        self._client_id = options["client_id"]
        self._settings = json.loads(base64.b64decode(options[_SETTINGS]))

    def batches(self, item: Any) -> Iterable[list[Row]]:
        """Yield the records of a range."""
        from connect_share.kafka.read import read_batches

        settings = ClientSettings(self._settings)
        for batch in read_batches(settings, [item], isolation=self._isolation, client_id=self._client_id):
            yield [_row(message) for message in batch]


def _row(message: Message) -> Row:
    from connect_share.kafka.client import headers_of

    headers = headers_of(message)
    if headers is None:
        _log.warning(
            "%s[%d]@%d: the name of a header is not UTF-8; its headers are given as null",
            message.topic(),
            message.partition(),
            message.offset(),
        )
    return (
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        headers_column(headers),
    )


class KafkaSource(RecordSource):
    """Data source ``connect_share_kafka``; use :func:`read_kafka`."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return NAME

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - the schema is fixed
        """Return the reader."""
        return KafkaReader(dict(self.options))


def read_kafka(
    spark: SparkSession,
    settings: ClientSettings,
    ranges: Sequence[OffsetRange],
    *,
    isolation: Isolation,
    client_id: str,
) -> DataFrame:
    """Return the records of half-open ranges as a DataFrame, one task a range.

    Columns:
        out: :data:`spark_jobs.record_source.KAFKA_SOURCE`.
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
