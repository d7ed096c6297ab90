"""Queries for people: overview, rows, failures, gates and spend; `doctor` and `adopt`."""
