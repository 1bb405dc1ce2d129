"""The start-up benchmark: scenarios, their topics, starts and storms, the fitted model, the file of results."""
