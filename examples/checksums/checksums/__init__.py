"""A custom pipeline: texts in, their SHA-256 out."""

from tabellion import messages

messages.add(__name__)
