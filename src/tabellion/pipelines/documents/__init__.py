"""Documents: accepted once each, read, checked, stored and reported."""
