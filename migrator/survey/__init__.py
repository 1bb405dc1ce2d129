"""Facts before a plan."""
