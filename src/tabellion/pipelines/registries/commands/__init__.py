"""Commands of registries."""
