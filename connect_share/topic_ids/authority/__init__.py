"""What the cluster itself says: the brokers, KRaft's metadata log, ZooKeeper."""
