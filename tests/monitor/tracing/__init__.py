"""Traces for OpenTelemetry."""
