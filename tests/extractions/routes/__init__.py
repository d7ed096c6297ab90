"""Tests of the routes and pages of extractions."""
