"""Simulated hosts and engines, load generators, proofs and benches."""
