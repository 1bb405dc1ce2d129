"""Finding the Connect clusters of a Kafka cluster by what lies on its topics, whatever these are called."""
