"""Tests of the routes of documents."""
