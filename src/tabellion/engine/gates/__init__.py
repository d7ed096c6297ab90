"""Gates before models: rate limits, circuit breaker and budget, shared by all processes through the database."""
