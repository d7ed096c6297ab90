"""What is built on the engine: each pipeline has its queues, its handlers and its submit; none imports another."""
