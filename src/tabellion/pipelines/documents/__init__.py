"""Documents: accepted once each, read, checked, stored and reported."""

from tabellion import messages

messages.add(__name__)
