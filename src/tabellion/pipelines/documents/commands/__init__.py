"""The commands of documents, one file each."""
