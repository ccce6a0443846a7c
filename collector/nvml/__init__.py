"""The child process that talks to the NVIDIA driver: it may hang or crash, not the collector."""
