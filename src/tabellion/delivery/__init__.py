"""Signed messages to others: endpoints, signatures, and a queue that delivers."""
