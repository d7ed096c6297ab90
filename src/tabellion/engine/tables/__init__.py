"""What a database says about a user's table, and whether a queue can be declared on it."""
