"""Worker files of Java workers, read as they are, and what they mean for our clients."""

from connect_share.worker_config.client_translation import ClientSettings, Isolation, common_settings
from connect_share.worker_config.config_providers import ConfigData, ConfigProvider
from connect_share.worker_config.config_transformer import WorkerConfigTransformer
from connect_share.worker_config.properties import load_properties, parse_properties
from connect_share.worker_config.worker import (
    CREATION_PROPERTY,
    SHARING_PROPERTY,
    TOPIC_PROPERTIES,
    TopicSet,
    WorkerConfig,
    common_isolation,
    load_worker_file,
)
