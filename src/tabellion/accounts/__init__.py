"""Who may use an installation, and the trail of what they did: users, keys, sessions, the audit log."""
