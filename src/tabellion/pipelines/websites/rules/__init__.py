"""Rules that analyse a website in place of a model: no key, no network, no cost."""
