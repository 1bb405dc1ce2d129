"""Topic ids on the brokers' disks against those the cluster has: scan, compare, plan a repair."""
