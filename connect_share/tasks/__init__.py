"""Connectors of one's own, and what runs them: source and sink tasks by Connect's names, for threads and event loops.

They need the extra ``runtime``. See ``docs/writing-a-runtime.md``.
"""

from connect_share.tasks.connectors import RetriableError, SinkTask, SourceRecord, SourceTask, TaskContext
from connect_share.tasks.runner import TaskRunner

__all__ = ["RetriableError", "SinkTask", "SourceRecord", "SourceTask", "TaskContext", "TaskRunner"]
