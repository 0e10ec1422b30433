"""How many components: every criterion, its curve, and what they say together."""
