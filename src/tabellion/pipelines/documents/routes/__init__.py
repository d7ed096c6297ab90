"""The routes of documents and their review: API and pages, with what they answer."""
