"""The state of the clusters, the state of a plan, and the checks that both still agree."""
