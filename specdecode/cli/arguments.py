"""What an option may be: whole numbers, numbers, JSON objects; and options that do not go together."""

import argparse
import json
from collections.abc import Callable, Iterable
from typing import Any

from specdecode.checks import as_count, as_number

__all__ = [
    "given",
    "json_object",
    "number",
    "or_default",
    "refuse",
    "seed",
    "toy_world_options",
    "whole",
    "world",
]


def whole(least: int, most: int) -> Callable[[str], int]:
    """The type of an option that takes a whole number in a range."""

    def parse(text: str) -> int:
        try:
            count = as_count(int(text), "it", least)
        except ValueError:
            count = most + 1
        if count > most:
            raise argparse.ArgumentTypeError(f"{text!r}; want a whole number from {least} to {most}")
        return count

    return parse


seed = whole(0, 2**63)


def number(least: float, most: float | None = None) -> Callable[[str], float]:
    """The type of an option that takes a number in a range; a finite one where there is no `most`."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")  # in no range
        try:
            return as_number(value, "it", least, most)
        except ValueError as error:
            want = str(error).partition("; ")[2]
            raise argparse.ArgumentTypeError(f"{text!r}; {want}") from None

    return parse


def json_object(text: str) -> dict[str, Any]:
    """The type of an option that takes a JSON object."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"""{text!r}; want a JSON object, such as '{{"top_k": 0}}'""")
    return found


def given(args: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """Of these options, those that were given."""
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def or_default(value: Any, default: Any) -> Any:
    """The default for an option that was not given."""
    return default if value is None else value


def refuse(args: argparse.Namespace, names: Iterable[str], what: str) -> None:
    """Refuse options that would have no effect beside `what`.

    Raises
    ------
    ValueError
        If one was given; names it.
    """
    for name in given(args, names):
        raise ValueError(f"--{name.replace('_', '-')} does not go with {what}; want one or the other")


_WORLD = {"vocab_size": 32, "target_seed": 1, "draft_seed": 2}


def toy_world_options(parser: argparse.ArgumentParser) -> None:
    """The options for the size and the seeds of the toy world."""
    parser.add_argument("--vocab-size", type=whole(1, 4096), help="toy: number of tokens (default 32)")
    parser.add_argument("--target-seed", type=seed, help="toy: target's seed (default 1)")
    parser.add_argument("--draft-seed", type=seed, help="toy: draft's seed (default 2)")


def world(args: argparse.Namespace) -> dict[str, int]:
    """Size and seeds of the toy world, as asked for or by default."""
    return _WORLD | given(args, _WORLD)
