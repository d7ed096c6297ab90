"""Documents: taken in once, read, checked, stored and told about."""
