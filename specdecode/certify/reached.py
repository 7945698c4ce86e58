"""Which lines of a sampler no world ran: nothing is said of them. By the library coverage, if installed."""

import ast
import inspect
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from types import FunctionType
from typing import Any

__all__ = ["Watch"]


class Watch:
    """Watches a sampler's own file while worlds are run; tracing ends as soon as every line has been.

    Parameters
    ----------
    function : callable
        The sampler.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._file, self._why = _file_of(function), ""
        self._watch: Any = None
        self._running = False
        if not self._file:
            self._why = "it has no source file"
        elif sys.gettrace() is not None:
            self._why = "another tracer is at work"
        else:
            try:
                import coverage
            except ImportError:
                self._why = "pip install 'specdecode[coverage]'"
                return
            self._homes = _homes(self._file)
            self._watch = coverage.Coverage(
                data_file=None, include=[self._file], branch=True, messages=False, config_file=False
            )
            self._watch.start()
            self._running = True

    def look(self) -> None:
        """After a world: stop tracing, which is slow, if nothing is left to be reached."""
        if self._running and not self._unreached() and not self._branches():
            self._stop()

    def told(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """("file:first-last" of lines that never ran, in functions that did; notes on branches not taken)."""
        if self._watch is None:
            return (), (f"which of its lines never ran is not known: {self._why}",)
        if self._running:
            self._stop()
        name, unreached = Path(self._file).name, self._unreached()
        lines = tuple(f"{name}:{first}-{last}" for first, last in _runs(unreached, self._statements()))
        branches = (
            f"{name}, line {line} never went on to {f'line {to}' if to > 0 else 'the end'}"
            for line, to in self._branches()
        )
        return lines, tuple(branches)

    def _stop(self) -> None:
        self._watch.stop()
        self._running = False

    def _statements(self) -> list[int]:
        return list(self._watch.analysis2(self._file)[1])

    def _unreached(self) -> list[int]:
        """Statements that never ran, of functions of which another did."""
        _, statements, _, missing, _ = self._watch.analysis2(self._file)
        missed, homes = set(missing), self._homes
        entered = {homes[line] for line in statements if line in homes and line not in missed}
        return [line for line in missing if homes.get(line) in entered]

    def _branches(self) -> list[tuple[int, int]]:
        """Branches never taken, from lines that ran to lines that ran."""
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            self._watch.json_report(outfile=str(report), ignore_errors=True)
            files = json.loads(report.read_text())["files"]
        missing = set(self._watch.analysis2(self._file)[3])
        branches: list[list[int]] = [b for file in files.values() for b in file.get("missing_branches", [])]
        return [
            (line, to)
            for line, to in branches
            if line not in missing and to not in missing and line in self._homes
        ]


def _file_of(function: Callable[..., Any]) -> str:
    """The file that a function stands in; empty if there is none."""
    function = inspect.unwrap(getattr(function, "func", function))
    start = function if isinstance(function, FunctionType) else type(function)
    try:
        file = inspect.getsourcefile(start)
    except TypeError:
        return ""
    return file if file is not None and Path(file).is_file() else ""


def _homes(file: str) -> dict[int, int]:
    """Line -> the first line of the innermost function that it is in the body of."""
    homes: dict[int, int] = {}
    functions = [
        node
        for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    for node in sorted(functions, key=lambda node: node.lineno):  # inner ones come later
        for line in range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1):
            homes[line] = node.lineno
    return homes


def _runs(lines: list[int], statements: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run of lines that no other statement stands between."""
    places = {line: place for place, line in enumerate(sorted(statements))}
    for _, run in groupby(enumerate(sorted(lines)), key=lambda pair: places[pair[1]] - pair[0]):
        members = [line for _, line in run]
        yield members[0], members[-1]
