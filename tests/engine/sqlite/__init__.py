"""Tests of the moves on SQLite."""
