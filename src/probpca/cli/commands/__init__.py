"""One module for each command: ``run(args)``."""
