"""The new key of a record: the rules of every direction, KIP-1173's migrator, the order of a folded state. Pure."""
