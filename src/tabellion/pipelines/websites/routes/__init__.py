"""Routes of the API and the pages of websites."""
