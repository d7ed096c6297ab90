"""The extraction queue: the table that pipelines share, its states, files, API and pages."""

from tabellion import messages

messages.add(__name__)
