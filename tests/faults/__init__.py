"""Tests that break things: one per row of the fault matrix, and chaos."""
