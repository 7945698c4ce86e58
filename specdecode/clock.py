"""Time, measured so that it can be quoted: on one thread, the best of several, with the machine named."""

import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

__all__ = ["machine", "one_thread", "seconds"]


def machine() -> str:
    """The machine in a few words: processor, system, Python and NumPy.

    Returns
    -------
    str
        One line, to stand beside every time that was measured here.
    """
    return f"{_processor()}, {platform.system()}, Python {platform.python_version()}, NumPy {np.__version__}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


@contextmanager
def one_thread() -> Iterator[None]:
    """Within it, BLAS and OpenMP use one thread: on a shared machine more can be many times slower.

    Raises
    ------
    ImportError
        Without `threadpoolctl`; names the install command.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise ImportError("timing needs threadpoolctl: pip install 'specdecode[smollm]'") from error
    with threadpool_limits(1):
        yield


def seconds(
    call: Callable[[], object], *, before: Callable[[], object] = lambda: None, repeats: int = 3
) -> float:
    """The shortest of several timings of a call.

    Parameters
    ----------
    call : callable
        What is timed.
    before : callable
        Run before each timing and not timed, to bring caches into the same state.
    repeats : int
        At least 1.

    Returns
    -------
    float
        Seconds; the shortest, since what disturbs a timing only lengthens it.

    Examples
    --------
    >>> seconds(lambda: None) >= 0
    True
    """
    times = []
    for _ in range(repeats):
        before()
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)
