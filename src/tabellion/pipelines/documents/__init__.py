"""Documents: taken in once, read, checked, stored and told about."""

from tabellion import messages

messages.add(__name__)
