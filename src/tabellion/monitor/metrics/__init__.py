"""Metrics for Prometheus: of the process, by events, and of the database, read when they are asked for."""
