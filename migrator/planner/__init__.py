"""Making a plan, and what it refuses."""
