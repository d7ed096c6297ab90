"""OCR: files of the extraction queue are read page by page, and their text is stored in their rows."""

from tabellion import messages

messages.add(__name__)
