"""The application over real HTTP on loopback."""
