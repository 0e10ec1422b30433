"""Maximum likelihood for rows with missing cells."""
