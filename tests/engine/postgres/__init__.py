"""Tests of the moves on PostgreSQL."""
