"""The backing stores of Kafka Connect, each over one log, and the offset reader and writer."""
