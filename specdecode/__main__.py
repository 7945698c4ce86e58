"""`python -m specdecode`, the same as `spec-decode`."""

import sys

from specdecode.cli import main

if __name__ == "__main__":  # a child process imports this file too
    sys.exit(main())
