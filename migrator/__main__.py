"""``python -m migrator``: the command ``connect-share-migrate``."""

import sys

from migrator.cli.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
