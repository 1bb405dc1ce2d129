"""What was there before, in a file, and putting it back."""
