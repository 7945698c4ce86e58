"""How nbval runs the notebooks of this folder.

A chapter that needs an extra which is not installed skips, and says how to install it.

Two settings that would otherwise have to be typed with every `pytest --nbval`: the kernel is that of the
environment pytest runs in, whatever kernel of that name the machine has, and pictures are not compared, since
an SVG differs between versions of Matplotlib and FreeType. The numbers in a picture are asserted beside it.
"""

from importlib.util import find_spec

import pytest

PICTURES = ("image/svg+xml",)  # nbval leaves out PNG and JPEG by itself


def pytest_configure(config):
    if not (getattr(config.option, "nbval", False) or getattr(config.option, "nbval_lax", False)):
        return
    if config.option.nbval_kernel_name is None:
        config.option.nbval_current_env = True


def pytest_collectstart(collector):
    if hasattr(collector, "skip_compare"):
        collector.skip_compare += PICTURES


NEEDS = {"07-certify-what-people-run.ipynb": ("torch", "transformers")}


def pytest_collection_modifyitems(items):
    for item in items:
        missing = [name for name in NEEDS.get(item.path.name, ()) if find_spec(name) is None]
        if missing:
            reason = f"needs {' and '.join(missing)}: requirements-torch.txt says how to install them"
            item.add_marker(pytest.mark.skip(reason=reason))
