"""The live proof: a real vLLM on this machine's CPU, and whether the lake tells the same."""
