"""The tests mirror src/ one to one; flows/ has one story per seed, faults/ breaks things."""
