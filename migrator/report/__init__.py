"""What a run leaves for people: a folder with a page."""
