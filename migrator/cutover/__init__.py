"""From old workers to new ones, and back again."""
