"""Websites: visited, put into prompts and analysed by models, in three phases."""
