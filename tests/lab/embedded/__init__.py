"""Real Kafka brokers and Connect workers in JVMs of their own, for the demo, benchmarks and tests."""
