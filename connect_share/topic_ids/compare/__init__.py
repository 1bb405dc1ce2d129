"""Disks against the authority, and what the differences mean."""
