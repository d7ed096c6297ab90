"""The HTTP application: no other package handles requests."""
