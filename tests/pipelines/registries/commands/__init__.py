"""Tests of registries."""
