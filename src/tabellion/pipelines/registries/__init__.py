"""Registries: documents, companies and rights, fetched from registry sites by a browser that profiles drive."""
