"""Tests of the pages: what they say, to whom, and in which language."""
