"""Backups of a migration, and their restore."""
