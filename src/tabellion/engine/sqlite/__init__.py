"""The moves on SQLite."""
