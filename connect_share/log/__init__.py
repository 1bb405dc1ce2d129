"""Following a compacted topic (``KafkaBasedLog``), and reading ranges of it once."""

from connect_share.log.kafka_based_log import KafkaBasedLog
from connect_share.log.log_state import OnFailed
from connect_share.log.memory_log import MemoryLog, MemoryTopic
from connect_share.log.open_transactions import find_open_transactions
from connect_share.log.protocol import CompactedLog, RecordMetadata, RecordSink
from connect_share.log.ranges import RangeReader, read_batches, read_ranges
from connect_share.log.shared_reader import SharedReader, StartContext
from connect_share.log.topic_bootstrap import TopicFacts, gather_facts, with_ends
from connect_share.log.topic_hub import RoutedLog, Router, TopicHub
