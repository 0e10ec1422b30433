"""Numbers only: matrices with structure, spectra and rotations. No statistical words."""
