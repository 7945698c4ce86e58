import os
import subprocess
import sys

import pytest


@pytest.fixture
def run_python():
    """Run code in a fresh interpreter and return what it did."""

    def run(code, **environment):
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | environment
        )

    return run
