"""The local field reader: from words with boxes to typed fields, by labels, geometry and arithmetic."""
