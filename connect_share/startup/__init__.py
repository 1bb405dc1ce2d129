"""What a start costs and why: a cost model, a profile of topics, and what other settings of the topics would change. Pure."""

from connect_share.startup.cost_model import EARLY_BYTES, EARLY_RECORDS, CostModel, StartSize, amounts
from connect_share.startup.model_file import FittedModel, load_model
from connect_share.startup.profile import PartitionCounter, PartitionProfile, TopicProfile
from connect_share.startup.report import ProfiledTopic, StartupProfile, members, startup_profile

__all__ = [
    "EARLY_BYTES",
    "EARLY_RECORDS",
    "CostModel",
    "FittedModel",
    "PartitionCounter",
    "PartitionProfile",
    "ProfiledTopic",
    "StartSize",
    "StartupProfile",
    "TopicProfile",
    "amounts",
    "load_model",
    "members",
    "startup_profile",
]
