"""What is built on the engine: each pipeline has its queues, its handlers and its submit; none imports another."""

from tabellion import messages
from tabellion.installed_pipelines import installed_pipelines

messages.load_pipelines = installed_pipelines
