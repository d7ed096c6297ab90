"""The routes of documents and their review: API and pages, with the forms of their answers."""
