"""``python -m connect_share``: the command ``connect-share``."""

import sys

from connect_share.cli.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
