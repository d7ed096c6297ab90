"""Tests of `tabellion adopt`."""
