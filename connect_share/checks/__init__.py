"""Checks of what the internal topics hold: state of the groups in, findings out. Pure; nothing is asked of a cluster here."""
