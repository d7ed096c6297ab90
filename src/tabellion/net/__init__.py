"""Outgoing HTTP and browser traffic: which addresses may be contacted, and how."""
