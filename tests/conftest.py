import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from coq import PROOFS, check


@pytest.fixture
def run_python():
    """Run code in a fresh interpreter and return what it did."""

    def run(code, **environment):
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | environment
        )

    return run


@pytest.fixture
def proofs(tmp_path):
    """A copy of the proofs, to be broken."""
    return Path(shutil.copytree(PROOFS, tmp_path / "proofs"))


@pytest.fixture(scope="session")
def coq():
    """Skip where there is no Coq that can read the proofs, and say how to get one."""
    try:
        return check.coq_version()
    except check.CannotAsk as missing:
        pytest.skip(str(missing))
