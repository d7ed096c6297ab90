"""Repairs the text of pages: columns, divided words, stray characters, and digits that contradict the arithmetic."""
