"""The HTTP application: the only place where HTTP is known."""
