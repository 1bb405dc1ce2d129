"""The lab: whole clusters and drills that only tests and maintainers run; no part of the wheel."""
