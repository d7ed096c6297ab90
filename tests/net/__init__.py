"""Tests of outgoing HTTP and browser traffic."""
