"""Batches: entities with image refs, read in chunks under one gate, published by content and reported by callback."""
