"""A text read a second time: columns, divided words, stray signs, and digits that contradict the arithmetic."""
