"""What is on the disks of brokers."""
