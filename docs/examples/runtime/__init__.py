"""A small Connect-like runtime: source and sink tasks on several workers, with Connect's REST.

    python -m runtime worker.properties --listen 127.0.0.1:8083

Run it from ``docs/examples``; ``docs/writing-a-runtime.md`` leads through it.
"""
