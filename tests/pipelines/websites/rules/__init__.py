"""Tests of the rules that answer in place of a model."""
