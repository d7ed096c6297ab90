"""The routes and pages of extractions."""
