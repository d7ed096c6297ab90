"""The routes under /api, one file per resource."""
