"""Tools of the checkout; nothing of it ships."""
