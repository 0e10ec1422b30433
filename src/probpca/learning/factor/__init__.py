"""Maximum-likelihood factor analysis."""
