"""``python -m probpca``: the same as ``probpca``."""

import sys

from probpca.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
