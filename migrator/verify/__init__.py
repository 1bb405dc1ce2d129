"""Proof that nothing was lost."""
