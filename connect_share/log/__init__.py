"""Following a compacted topic: start, tail, and writes in the order of each key."""
