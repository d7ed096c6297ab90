"""Document types: one YAML file per kind of document, with its fields and rules."""
