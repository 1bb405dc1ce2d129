"""Carrying a plan out, once or behind a live source, and proof that nobody else was touched."""
