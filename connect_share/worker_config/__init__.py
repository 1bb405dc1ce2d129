"""Worker files of Java workers, read as they are, and what they mean for our clients."""

from connect_share.worker_config.client_settings import ClientSettings, Isolation, is_secret_property
from connect_share.worker_config.client_translation import (
    common_settings,
    is_java_client_property,
)
from connect_share.worker_config.properties import load_properties, parse_properties
from connect_share.worker_config.topic_set import TopicSet
from connect_share.worker_config.worker_config import SHARING_PROPERTY, TOPIC_PROPERTIES, WorkerConfig

__all__ = [
    "SHARING_PROPERTY",
    "TOPIC_PROPERTIES",
    "ClientSettings",
    "Isolation",
    "TopicSet",
    "WorkerConfig",
    "common_settings",
    "is_java_client_property",
    "is_secret_property",
    "load_properties",
    "parse_properties",
]
