"""The pages that people work in: HTML from templates, everything else from the API."""
