"""Tests of the commands of documents."""
