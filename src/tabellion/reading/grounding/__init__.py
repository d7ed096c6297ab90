"""Where a value stands on the page, or that it stands nowhere."""
