"""The pages for people: HTML from templates; scripts get everything else from the API."""
