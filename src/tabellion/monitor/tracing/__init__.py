"""Traces for OpenTelemetry: everything that happened to one row is one trace, in whichever process it happened."""
