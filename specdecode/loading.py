"""Functions named on the command line: FILE.py:FUNCTION or package.module:function."""

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["load_function", "source_hash"]


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

    Examples
    --------
    >>> load_function("specdecode.verifiers:token").__name__
    'token'
    """
    where, colon, attribute = name.rpartition(":")
    if not colon or not where or not attribute:
        raise ValueError(f"{name!r} names no function; want FILE.py:FUNCTION or package.module:function")
    module = _from_file(Path(where)) if where.endswith(".py") else _from_path(where)
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            known = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
            raise ValueError(
                f"{where} has no {attribute!r}; it has {', '.join(sorted(known)) or 'no functions'}"
            )
        found = getattr(found, part)
    return found


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ValueError(f"there is no file {str(path)!r}; want FILE.py:FUNCTION")
    known = sys.modules.get(path.stem)
    if getattr(known, "__file__", None) == str(path):  # two functions of one file share what it made
        return known
    sys.path.insert(0, str(path.resolve().parent))  # so that the file finds its neighbours
    _refuse_doubles(path.resolve().parent)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    return _run(lambda: spec.loader.exec_module(module) or module, path)


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
    sys.path.insert(0, "")
    return _run(lambda: importlib.import_module(dotted), dotted)


def _run(load: Callable[[], ModuleType], where: str | Path) -> ModuleType:
    try:
        return load()
    except (Exception, SystemExit) as error:
        raise ValueError(f"{str(where)!r} cannot be loaded: {type(error).__name__}: {error}") from error


def source_hash(function: Callable[..., Any]) -> str | None:
    """SHA-256 of a function's source text, or None where there is no source."""
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        return None
    return hashlib.sha256(source.encode()).hexdigest()
