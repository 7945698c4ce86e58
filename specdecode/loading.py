"""Functions named on the command line: FILE.py:FUNCTION or package.module:function."""

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["in_a_line", "load_function", "source_hash"]

_SHOWN = 20  # functions of a module, where another is named


def load_function(name: str) -> Callable[..., Any]:
    """The function a name stands for. Loading a file runs it.

    Parameters
    ----------
    name : str
        "FILE.py:FUNCTION" or "package.module:function"; dots after the colon reach into classes.

    Returns
    -------
    callable

    Raises
    ------
    ValueError
        If there is no such file, module or function, or running the file fails; in one line.

    Guarantee
    ---------
    What lies beside the file (for a module, in the current folder) can be imported by it, and comes before
    what is installed, as for a script. Except that a file hides no library: `import torch` finds PyTorch
    beside a torch.py, and `import token` the standard library.

    Examples
    --------
    >>> load_function("specdecode.verifiers:token").__name__
    'token'
    """
    where, colon, attribute = name.rpartition(":") if isinstance(name, str) else ("", "", "")
    if not colon or not where or not attribute:
        raise ValueError(f"{name!r} names no function; want FILE.py:FUNCTION or package.module:function")
    module = _from_file(Path(where)) if where.endswith(".py") else _from_path(where)
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            known = sorted(
                n for n, value in vars(module).items() if callable(value) and not n.startswith("_")
            )
            has = ", ".join(known[:_SHOWN]) + ", …" * (len(known) > _SHOWN) or "no functions"
            raise ValueError(f"{where} has no {attribute!r}; it has {has}")
        found = getattr(found, part)
    function: Callable[..., Any] = found
    return function


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ValueError(f"there is no file {str(path)!r}; want FILE.py:FUNCTION")
    file = path.resolve()
    names = path.stem, f"{path.stem} in {file.parent}"
    for known in map(sys.modules.get, names):
        if known and Path(getattr(known, "__file__", None) or "").resolve() == file:
            return known  # two functions of one file share what it made
    _look_in(file.parent)
    _refuse_doubles(file.parent)
    # A name that is a library's stays the library's, for whoever imports it.
    name = names[path.stem in sys.modules or _hides_library(path.stem)]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # it ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    run = spec.loader.exec_module
    return _run(lambda: run(module) or module, path)


def _look_in(folder: Path) -> None:
    """Let what is in a folder be imported."""
    sys.meta_path.insert(0, _Beside(folder))
    sys.path.append(str(folder))  # for what is found nowhere else, and for processes that the code starts


class _Beside:
    """Finds the modules in a folder before the installed ones, unless they would hide a library."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None:  # part of a package, which knows where
            return None
        spec = PathFinder.find_spec(name, [str(self.folder)])
        if spec is None or spec.loader is None:  # a folder without an __init__.py is the last resort
            return None
        is_file = spec.submodule_search_locations is None
        return None if _hides_library(name, is_file) else spec


def _hides_library(name: str, is_file: bool = True) -> bool:
    """Whether a module of this name would hide one of the standard library, or a file an installed package.

    A folder beside is another matter: a checkout of what is installed. So is a name by chance, such as
    "utils", that is no distribution's.
    """
    if name in sys.stdlib_module_names or not is_file:
        return name in sys.stdlib_module_names
    from importlib.metadata import PackageNotFoundError, distribution  # slow to import

    try:
        distribution(name)
    except (PackageNotFoundError, ValueError):
        return False
    others = [finder.find_spec(name, None) for finder in sys.meta_path if not isinstance(finder, _Beside)]
    installed = next(filter(None, others), None)
    return installed is not None and installed.submodule_search_locations is not None


def _refuse_doubles(folder: Path) -> None:
    """A module that another file has brought along must not be taken for a neighbour of this one."""
    for name, module in list(sys.modules.items()):
        there = getattr(module, "__file__", None)
        here = folder / f"{name}.py"
        brought = there and Path(there).resolve().parent in _FOLDERS and Path(there).resolve() != here
        if brought and here.is_file():
            raise ValueError(f"{there} and {str(here)!r} are both the module {name}; want different names")
    _FOLDERS.add(folder)


_FOLDERS: set[Path] = set()  # of the files that were loaded


def _from_path(dotted: str) -> ModuleType:
    _look_in(Path.cwd())
    return _run(lambda: importlib.import_module(dotted), dotted)


def _run(load: Callable[[], ModuleType], where: str | Path) -> ModuleType:
    try:
        return load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: the file is someone else's
        raise ValueError(f"{str(where)!r} cannot be loaded: {in_a_line(error)}") from error


def in_a_line(error: BaseException) -> str:
    """An error's type and text in one line, even if it fails to say what it is.

    Examples
    --------
    >>> in_a_line(ValueError("k is 0"))
    'ValueError: k is 0'
    """
    try:
        text = " ".join(str(error).split())
    except BaseException as another:
        text = f"its text cannot be had, {type(another).__name__}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def source_hash(function: Callable[..., Any]) -> str | None:
    """SHA-256 of a function's source text, or None where there is no source."""
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        return None
    return hashlib.sha256(source.encode()).hexdigest()
