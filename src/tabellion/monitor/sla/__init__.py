"""SLA targets: what they measure, whether they are kept, and alerts when that changes."""
