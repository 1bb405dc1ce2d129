"""Records of the three topics and what they mean: keys, JSON, and folds into the state of a worker. Pure."""
