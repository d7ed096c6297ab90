"""The texts of the pages of documents and their review, by language and key."""
