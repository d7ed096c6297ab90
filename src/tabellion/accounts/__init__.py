"""Users, API keys, sessions and sign-in links, and the audit log of what they did."""
