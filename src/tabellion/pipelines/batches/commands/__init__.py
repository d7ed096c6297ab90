"""The commands of batches."""
