"""How large the code is, and how far one has to read: the same figures for any two revisions."""
