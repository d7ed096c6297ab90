"""Tests of the application over real HTTP on loopback."""
