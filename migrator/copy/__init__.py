"""One slice of a plan: read, written, read back after an interruption, and what is noted of it."""
