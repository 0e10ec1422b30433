"""Learning from streams: batches of rows that are read only once."""
