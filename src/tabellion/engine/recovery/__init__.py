"""Rows that are stuck: their claims expired, the database refuses them, or another program left them."""
