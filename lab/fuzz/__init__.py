"""Hostile input for the parts that strangers can reach."""
