"""Tests of websites."""
