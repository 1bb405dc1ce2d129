"""The one-line way in: the three stores of one worker, started side by side."""

from connect_share.storage.connect_storage import ConnectStorage
from connect_share.storage.shared_topics import SharedTopics
from connect_share.storage.startup import StorageStartup, StoreStartup
