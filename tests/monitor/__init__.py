"""Listeners and pictures."""
