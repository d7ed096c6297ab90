"""Review: people as workers, their claims, what they do to fields, and how an item ends."""
