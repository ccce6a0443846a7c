"""Proof that acknowledged rows survive: kill -9, full and read-only disks, damage, clock steps."""
