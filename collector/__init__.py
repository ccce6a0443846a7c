"""The sidecar: reads the machine and the engine, writes rows."""
