"""What the signals mean: documented SQL, and the maths on small frames beside it."""
