"""Websites: what a site says about itself, put before models, in three phases."""
