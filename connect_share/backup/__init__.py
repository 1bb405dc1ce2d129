"""Backups of groups in one file, and their way back."""
