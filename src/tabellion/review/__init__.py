"""People's queue: review items, who may claim them, what they change, and the trail of all that."""
