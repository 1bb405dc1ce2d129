"""JSON exactly as Kafka Connect's ``JsonConverter`` (``schemas.enable=false``) writes and reads it."""

from connect_share.connect_json.hash_order import java_hash_order
from connect_share.connect_json.numbers import Float32
from connect_share.connect_json.reader import loads
from connect_share.connect_json.writer import JSON_NULL, dumps, same

__all__ = ["JSON_NULL", "Float32", "dumps", "java_hash_order", "loads", "same"]
