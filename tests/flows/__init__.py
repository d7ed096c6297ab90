"""One story per seed."""
