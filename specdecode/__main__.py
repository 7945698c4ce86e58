"""`python -m specdecode`, the same as `spec-decode`."""

import sys

from specdecode.cli import main

sys.exit(main())
