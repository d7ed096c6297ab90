"""The extraction queue: the table that pipelines share, its states, files, API and pages."""
