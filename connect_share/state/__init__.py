"""The state of a worker: pure folds over the records of the three topics, and the records themselves."""

from connect_share.state.config_fold import ConfigEvent, ConfigFold
from connect_share.state.config_records import (
    connector_config_record,
    target_state_record,
    task_commit_record,
    task_config_record,
    task_count_record,
)
from connect_share.state.config_state import (
    ClusterConfigState,
    RestartRequest,
    SessionKey,
    TargetState,
    task_configs_changed,
)
from connect_share.state.offset_fold import OffsetFold, OffsetSnapshot
from connect_share.state.offset_records import (
    offset_key,
    offset_value,
    parse_offset_key,
    partition_identity,
    validate_offset_map,
)
from connect_share.state.replay import replay_config, replay_offsets, replay_status
from connect_share.state.skips import SkipKind
from connect_share.state.status_fold import StatusFold, StatusSnapshot
from connect_share.state.status_records import (
    ConnectorStatus,
    State,
    TaskStatus,
    TopicStatus,
    connector_status_record,
    task_status_record,
    topic_status_record,
)
from connect_share.state.writable import session_key_record
