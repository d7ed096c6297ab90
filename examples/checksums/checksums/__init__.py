"""A pipeline of your own: texts in, their SHA-256 out."""
