"""Models: external APIs that turn parts into replies, one file each, with one interface."""
