"""A server that speaks the Gemini and the OpenAI protocols, for tests, demos and load; it calls nobody."""
