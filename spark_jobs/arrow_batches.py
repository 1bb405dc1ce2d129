"""Records as Arrow batches of :data:`spark_jobs.schemas.KAFKA_SOURCE`, as the data sources yield them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from spark_jobs.schemas import KAFKA_SOURCE

T = TypeVar("T")


def arrow_batches(batches: Iterable[Sequence[T]], columns: Callable[[Sequence[T]], list[list[Any]]]) -> Iterator[Any]:
    """Yield one Arrow record batch for each batch of records.

    Args:
        batches: of records in any form.
        columns: gives the values of a batch, by column in the order of the schema.
    """
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(KAFKA_SOURCE)
    for batch in batches:
        arrays = [pa.array(column, field.type) for column, field in zip(columns(batch), schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
