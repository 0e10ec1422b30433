"""The observed cells of rows with missing ones, in forms that multiply fast."""
