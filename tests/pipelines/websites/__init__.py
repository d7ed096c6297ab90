"""Tests of the websites pipeline."""
