"""A local file with what a group's stores believed and how far they had read, so that a restart reads only what is new."""
