"""Edges read from the code: whole numbers in a sampler's source, at which its behaviour may change.

A kernel that sums the first 32 entries, a cache of 50 tokens, ids kept in eight bits: none of this shows on a
world of three tokens. So the numbers that stand in the source are tried as sizes, just below, at and above.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FunctionType
from typing import Any

from specdecode.certify.worlds import World, sized_worlds

__all__ = ["edge_worlds", "numbers_in"]

_LEAST = 4  # smaller sizes are in every battery
_WIDEST, _LONGEST, _DEEPEST = 70_000, 130, 40  # vocabulary, text, draft: what a world of three ids can afford
_MOST = 6  # numbers tried


def numbers_in(function: Callable[..., Any]) -> list[int]:
    """Whole numbers of 4 or more that stand in a function's source, and in what it names of its own module.

    Products, powers and shifts of numbers count as their value.

    Examples
    --------
    >>> from specdecode import verifiers
    >>> numbers_in(verifiers.token)
    []
    """
    found: set[int] = set()
    for tree in _sources(function):
        found |= {value for node in ast.walk(tree) if (value := _value(node)) is not None and value >= _LEAST}
    return sorted(found)


def _sources(function: Callable[..., Any]) -> Iterator[ast.AST]:
    """Syntax trees of a function and of what it names of its own module."""
    function = inspect.unwrap(getattr(function, "func", function))
    home = getattr(function, "__module__", None)
    start = function if isinstance(function, (FunctionType, type)) else type(function)
    waiting: list[Any] = [start, *getattr(function, "__dict__", {}).values()]
    seen: set[int] = set()
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or getattr(thing, "__module__", None) != home:
            continue
        seen.add(id(thing))
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
        except (OSError, TypeError, SyntaxError):  # no source, as for what is typed into a prompt
            continue
        yield tree
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        around = getattr(thing, "__globals__", {}) | dict(inspect.getmembers(inspect.getmodule(thing)))
        for name in names & around.keys():
            if isinstance(around[name], int) and not isinstance(around[name], bool):
                yield ast.Constant(around[name])
            waiting.append(around[name])


def _value(node: ast.AST) -> int | None:
    """The whole number that a piece of source stands for, if it does."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left), _value(node.right)
        if left is not None and right is not None and 0 <= left < 2**32 and 0 <= right < 64:
            for kind, make in _FOLDED.items():
                if isinstance(node.op, kind):
                    return make(left, right)
    return None


_FOLDED: dict[type, Callable[[int, int], int]] = {
    ast.Mult: lambda a, b: a * b,
    ast.Pow: lambda a, b: min(a**b, 2**64) if a < 2**16 else 2**64,
    ast.LShift: lambda a, b: a << b,
    ast.Add: lambda a, b: a + b,
}


def edge_worlds(function: Callable[..., Any], is_generator: bool) -> tuple[list[World], list[str]]:
    """Worlds about the numbers in a function's source, and what was not tried.

    Parameters
    ----------
    function : callable
    is_generator : bool

    Returns
    -------
    (list of World, list of str)
        The second names numbers for which no world is affordable.
    """
    numbers = numbers_in(function)
    worlds: list[World] = []
    left = [number for number in numbers[_MOST:] if number < _WIDEST]
    for number in numbers[:_MOST]:
        if number >= _WIDEST:
            left.append(number)
            continue
        sizes = number - 1, number, number + 1
        depths = [size for size in sizes if size <= _DEEPEST]
        lengths = [number] if number <= _LONGEST else []
        worlds += sized_worlds(sizes, depths, lengths, is_generator=is_generator)
    told = [f"{number} stands in its source, and was not tried as a size" for number in sorted({*left})]
    return [replace(world, spare=True) for world in worlds], told
