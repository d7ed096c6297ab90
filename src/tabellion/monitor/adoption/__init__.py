"""`tabellion adopt`: proposes a declaration for a table."""
