"""Tests of SLA targets."""
