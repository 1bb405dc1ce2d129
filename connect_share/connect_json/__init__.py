"""JSON exactly as Kafka Connect's ``JsonConverter`` (``schemas.enable=false``) writes and reads it."""

from connect_share.connect_json.reader import loads
from connect_share.connect_json.writer import JSON_NULL, dumps, same
