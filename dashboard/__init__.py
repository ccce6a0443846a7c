"""The pages: reads the lake, writes nothing."""
