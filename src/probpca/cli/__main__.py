"""``python -m probpca.cli``."""

import sys

from probpca.cli.main import main

sys.exit(main())
