"""Tests of gates."""
