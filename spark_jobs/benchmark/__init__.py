"""The start-up benchmark: scenarios, contenders, the storm, the latency of running stores, the fitted model, the report."""
