"""The moves on PostgreSQL."""
