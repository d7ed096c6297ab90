"""Commands of websites."""
