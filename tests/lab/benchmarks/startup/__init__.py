"""The start-up benchmark beside Java's stores, on a local broker or any cluster, and its report."""
