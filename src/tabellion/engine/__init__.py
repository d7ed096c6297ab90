"""Rows to claimed jobs: knows nothing of documents, models or the web."""
