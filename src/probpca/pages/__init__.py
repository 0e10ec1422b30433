"""Pages that a browser shows without a network: what their HTML, styles and scripts have in common."""
