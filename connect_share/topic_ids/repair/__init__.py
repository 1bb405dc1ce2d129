"""Plans of repairs, and their execution with backup and undo."""
