"""Reads files of any quality into pages, words with boxes, and fields with a calibrated confidence. No database."""
