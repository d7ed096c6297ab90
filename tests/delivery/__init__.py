"""Tests of signed messages to others."""
