"""Answer five questions over the topics of a worker file, by SQL: ``python -m analysis worker.properties``."""

from __future__ import annotations

import sys
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from spark_jobs import decode, read_kafka

# A key lives in one partition; its newest record there counts.
NEWEST: Final = """
    SELECT *, row_number() OVER (PARTITION BY topic, partition, key_id ORDER BY offset DESC) = 1 AS counts
    FROM records WHERE kind IS NOT NULL
"""

QUESTIONS: Final = {
    "What does each group take, and how much of it has a newer record?": """
        SELECT group, count(*) AS records, sum(key_bytes + coalesce(value_bytes, 0)) AS bytes,
               count_if(NOT counts) AS superseded
        FROM newest GROUP BY group ORDER BY bytes DESC
    """,
    "Which tasks have failed, and where did they run?": """
        SELECT group, connector, task, worker_id FROM newest
        WHERE counts AND kind = 'status-task' AND state = 'FAILED' ORDER BY group, connector, task
    """,
    "Which connectors are gone, and left statuses or offsets behind?": """
        SELECT group, connector, count(*) AS keys FROM newest AS left_behind
        WHERE counts AND NOT removes AND topic_type IN ('status', 'offset') AND NOT EXISTS (
            SELECT 1 FROM newest AS living WHERE living.kind = 'connector' AND living.counts AND NOT living.removes
            AND living.group <=> left_behind.group AND living.connector = left_behind.connector
        )
        GROUP BY group, connector ORDER BY group, connector
    """,
    "Which connectors are not meant to run?": """
        SELECT group, connector, state FROM newest
        WHERE counts AND kind = 'target-state' AND state <> 'STARTED' ORDER BY group, connector
    """,
    "When was how much written, and by whom?": """
        SELECT date_trunc('HOUR', timestamp) AS hour, group, count(*) AS records FROM records
        WHERE timestamp IS NOT NULL GROUP BY ALL ORDER BY hour DESC, records DESC
    """,
}


def answers(spark: SparkSession, worker_file: str) -> dict[str, DataFrame]:
    """Return a DataFrame for each question; the topics are read once, when the first one is shown."""
    decode(read_kafka(spark, worker_file)).cache().createOrReplaceTempView("records")
    spark.sql(NEWEST).createOrReplaceTempView("newest")
    return {question: spark.sql(query) for question, query in QUESTIONS.items()}


if __name__ == "__main__":
    for question, answer in answers(SparkSession.builder.getOrCreate(), sys.argv[1]).items():
        print(question)
        answer.show(truncate=False)
