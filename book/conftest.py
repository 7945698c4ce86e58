"""How nbval runs the notebooks of this folder.

Two settings that would otherwise have to be typed with every `pytest --nbval`: the kernel is that of the
environment pytest runs in, whatever kernel of that name the machine has, and pictures are not compared, since
an SVG differs between versions of Matplotlib and FreeType. The numbers in a picture are asserted beside it.
"""

PICTURES = ("image/svg+xml",)  # nbval leaves out PNG and JPEG by itself


def pytest_configure(config):
    if not (getattr(config.option, "nbval", False) or getattr(config.option, "nbval_lax", False)):
        return
    if config.option.nbval_kernel_name is None:
        config.option.nbval_current_env = True


def pytest_collectstart(collector):
    if hasattr(collector, "skip_compare"):
        collector.skip_compare += PICTURES
