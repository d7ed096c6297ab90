"""Turns rows into claimed jobs; independent of documents, models and the web."""
