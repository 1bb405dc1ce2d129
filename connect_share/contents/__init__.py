"""What the shared topics hold: the state of each group, sizes, profiles, and the cost of a start."""
