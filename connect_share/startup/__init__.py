"""The cost of a start: a cost model, a profile of the topics, and advice on their settings.

Only ``topic_count`` reads from a cluster, and only ``tables`` prints.
"""

from connect_share.startup.cost_model import (
    EARLY_BYTES,
    EARLY_RECORDS,
    CostModel,
    FittedModel,
    StartSize,
    amounts,
    load_model,
)
from connect_share.startup.profile import PartitionCounter, PartitionProfile, TopicProfile
from connect_share.startup.report import SHIPPED_NAME, ProfiledTopic, StartupProfile, members, startup_profile
from connect_share.startup.topic_count import CountJob, CountPlan
