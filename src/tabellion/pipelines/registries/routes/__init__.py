"""The routes and pages of registries."""
