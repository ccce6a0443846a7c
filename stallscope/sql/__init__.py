"""One person's statement over the lake: checked, confined to a child process, read only."""
