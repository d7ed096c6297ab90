"""Tabellion turns the tables you already have into safe work queues."""

from tabellion.engine.environment import Environment
from tabellion.engine.errors import LeaseLost, Permanent, RateLimited
from tabellion.engine.events import Event
from tabellion.engine.job import Job
from tabellion.engine.queue import Queue
from tabellion.engine.store import Store
from tabellion.engine.worker import Worker

__all__ = ["Environment", "Event", "Job", "LeaseLost", "Permanent", "Queue", "RateLimited", "Store", "Worker"]

__version__ = "0.1.0"
