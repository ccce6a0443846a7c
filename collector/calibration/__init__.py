"""Measuring what a GPU's host link can achieve, with the tools that are there."""
