"""Tests of the commands of websites."""
