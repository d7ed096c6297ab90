"""Outside APIs that turn parts into replies, one file each, behind one method."""
