"""Locates values on pages."""
