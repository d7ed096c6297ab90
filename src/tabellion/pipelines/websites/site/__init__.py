"""Visits a website and reports what it found there: texts, metadata, contacts, technologies, a sample of its pages."""

from tabellion.extras import require


def check_installed() -> None:
    """Raises a ConfigurationError if a package that visits need is missing, before the first job."""
    require("websites")
