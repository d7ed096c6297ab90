"""Tests of visits to websites."""
