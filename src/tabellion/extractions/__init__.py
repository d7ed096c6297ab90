"""The extraction queue: the table that pipelines share, its states, its files, and what people see of it."""

from tabellion import messages

messages.add(__name__)
