"""How a run of pytest is shared out: one process a core, one thread each, each file whole in one of them."""

import os
from pathlib import Path

import pytest

for library in ("OPENBLAS", "OMP"):  # before NumPy or PyTorch is imported, and for all processes started here
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """A single file runs in this process: there is nothing to share, and a worker takes seconds to start."""
    files = {config.invocation_params.dir / argument.partition("::")[0] for argument in config.args}
    return 0 if len(files) == 1 and Path(*files).is_file() else None
