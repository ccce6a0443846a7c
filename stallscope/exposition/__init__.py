"""The page at /metrics: names, latest values, both text formats."""
