"""Websites: visited, put into prompts and analysed by models, in three phases."""

from tabellion import messages

messages.add(__name__)
