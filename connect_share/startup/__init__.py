"""What a start costs and why: a cost model, a profile of topics, and what other settings of the topics would change. Pure."""

from connect_share.startup.cost_model import CostModel, StartSize

__all__ = ["CostModel", "StartSize"]
