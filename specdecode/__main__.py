"""`python -m specdecode`, the same as `spec-decode`."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:  # -m puts the current folder first: a numpy.py in it is no library
        sys.path.append(sys.path.pop(0))
    from specdecode.cli import main

    sys.exit(main())
