"""What the clusters say, what was done with a plan so far, and whether everything is still as planned."""
