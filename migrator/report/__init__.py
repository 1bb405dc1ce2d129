"""The evidence of a run: a folder with a page."""
