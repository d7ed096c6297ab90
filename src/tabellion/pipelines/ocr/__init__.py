"""OCR: reads the files of the extraction queue page by page and stores their text in their rows."""
