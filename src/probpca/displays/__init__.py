"""What there is to see: figures, drawn with matplotlib from numbers that other rooms computed."""
