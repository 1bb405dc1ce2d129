"""What the internal topics of a worker have, and writing to them without losing a record unnoticed."""
