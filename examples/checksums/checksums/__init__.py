"""A custom pipeline: texts in, their SHA-256 out."""
