"""Backups of groups in one file, and their way back.

What asks a cluster raises ``BrokerError`` if that refuses, and ``ReadToEndTimeoutError`` if an end is not reached in time;
docstrings name the other errors.
"""
