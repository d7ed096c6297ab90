"""Invoices with embedded XML: Factur-X, ZUGFeRD, XRechnung; read exactly and validated against their standards."""
