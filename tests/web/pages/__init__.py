"""Tests of the pages: their content, their access rules and their languages."""
