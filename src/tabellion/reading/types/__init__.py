"""Document types: one YAML file that says which fields a kind of document has and what makes them right."""
