"""Tests of the extraction queue."""
