"""The drill: real brokers lose their topic ids and are repaired while clients run."""
