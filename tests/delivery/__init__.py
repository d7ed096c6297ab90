"""Tests of webhook deliveries."""
