"""The plan as data, and whose connectors are whose. Pure."""
