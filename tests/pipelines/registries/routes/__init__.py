"""Tests of the routes of registries."""
