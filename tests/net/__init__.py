"""Tests of what talks to the outside."""
