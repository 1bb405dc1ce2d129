"""What is asked of a Kafka cluster and told to it: the client, topics, offsets, ranges of records, and writes."""
