"""Benchmarks of our own: workers with and without the jar, and moves beside MirrorMaker 2."""
