"""Tests of listeners and views."""
