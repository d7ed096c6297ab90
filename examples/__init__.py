"""Small programs that show tabellion at work."""
