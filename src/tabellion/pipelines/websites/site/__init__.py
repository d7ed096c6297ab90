"""Visits a website and reports what it found there: texts, metadata, contacts, technologies, a sample of its pages."""

from tabellion import messages

messages.add(__name__)
