"""Readers that turn dataframes, iterables of batches and files into blocks of rows."""
