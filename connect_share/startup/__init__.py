"""The cost of a start: a cost model, a profile of the topics, and advice on their settings.

Only ``topic_count`` reads from a cluster, and only ``tables`` prints.
"""
