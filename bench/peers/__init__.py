"""One runnable script per peer, each with the settings its own documentation calls fast."""
