"""The console ``connect-share``: what is in the internal topics, for people and for scripts."""
