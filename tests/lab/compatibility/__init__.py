"""The compatibility matrix: real brokers, Java workers and Python stores of several versions share topics."""
