"""Invoices that carry their own XML: Factur-X, ZUGFeRD, XRechnung; read exactly and judged by their standards."""
