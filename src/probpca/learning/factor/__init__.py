"""Maximum-likelihood factor analysis: a noise variance for each feature."""
