"""Linear algebra without statistics: structured matrices, eigenvalue solvers and rotations."""
