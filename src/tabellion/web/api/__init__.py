"""What stands under /api, one file per noun."""
