"""Tests of Celery as the engine of a fleet."""
