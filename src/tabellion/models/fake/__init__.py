"""A server with the Gemini and the OpenAI protocols, for tests, demos and load tests; it makes no calls."""
