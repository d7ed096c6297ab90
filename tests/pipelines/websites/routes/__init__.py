"""Tests of the routes of websites."""
