"""Tests of the OCR pipeline."""
