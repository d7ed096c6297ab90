"""The tests mirror src/ one to one; flows/ tells one story per seed, faults/ breaks things."""
