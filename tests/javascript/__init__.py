"""Lint and types of the pages' scripts."""
