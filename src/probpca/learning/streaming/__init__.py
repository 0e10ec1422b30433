"""Learning from batches of rows that are read once."""
