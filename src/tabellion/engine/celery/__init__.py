"""Celery as the engine of a fleet: its messages are hints to look at a queue, and the row decides."""
