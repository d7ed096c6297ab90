"""Measures tabellion beside its peers and the bare loops that bound it."""
