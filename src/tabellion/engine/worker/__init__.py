"""The worker: claims jobs into free slots, runs handlers, renews leases, settles outcomes."""
