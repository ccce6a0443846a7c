"""One module per page; each has `page`, which draws it."""
