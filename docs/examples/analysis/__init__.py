"""Questions that a notebook answers over the topics that many clusters share."""
