"""The plan as data, and its file."""
