"""Modules that run inside the engine's API server; they import neither each other nor ours."""
