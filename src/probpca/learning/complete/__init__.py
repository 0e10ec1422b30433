"""Maximum likelihood for complete rows: the closed form and its eigensolvers."""
