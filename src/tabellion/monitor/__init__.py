"""Listeners on events and queries on counts."""
