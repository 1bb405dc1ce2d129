"""Backing stores for Kafka Connect clusters that share their internal topics (KIP-1173)."""
