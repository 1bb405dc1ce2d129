"""The lab: whole clusters and drills that only tests and maintainers run; no part of the wheel.

What cannot be had, or does not hold, is an ``EmbeddedError`` or another ``ConnectShareError``: a command prints it and fails.
"""
