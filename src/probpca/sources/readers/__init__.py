"""How what a user passes becomes blocks of rows: frames, batches and files."""
