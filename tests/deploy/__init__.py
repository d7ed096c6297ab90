"""The files in deploy/: dashboards and alerts name metrics that exist, and a real Prometheus evaluates them."""
