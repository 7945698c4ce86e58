"""The rooms of the package: old names are today's modules, and imports between rooms run one way."""

import ast
import importlib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import specdecode
from specdecode._moved import MOVED

HOME = Path(specdecode.__file__).parent
ROOMS = {path.stem for path in HOME.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}

# (room, room that it imports): why this import counts for nothing.
# Imports inside functions and for type checkers count as any other; so far no room needs an exception.
EXCEPTED: dict[tuple[str, str], str] = {}


def rooms_in(source: str) -> Iterator[str]:
    """The rooms that a source imports, wherever in it the import stands.

    >>> list(rooms_in("from specdecode import rule, __version__; import specdecode.exact.laws"))
    ['rule', 'exact']
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: rooms are imported by their whole names"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for first, *rest in (name.split(".") for name in names):
            if first == "specdecode" and rest and rest[0] in ROOMS:
                yield rest[0]


def sources() -> Iterator[tuple[str, str]]:
    """Every room with the source of each of its files."""
    for path in HOME.rglob("*.py"):
        yield path.relative_to(HOME).with_suffix("").parts[0], path.read_text(encoding="utf-8")


def order(sources: Iterator[tuple[str, str]]) -> list[str]:
    """The rooms, each after all that it imports; CycleError if there is no such order."""
    imports: dict[str, set[str]] = {}
    for room, source in sources:
        others = {other for other in rooms_in(source) if (room, other) not in EXCEPTED}
        imports.setdefault(room, set()).update(others - {room})
    return list(TopologicalSorter(imports).static_order())


def test_imports_run_one_way():
    assert set(order(sources())) == ROOMS


@pytest.mark.parametrize(
    "wrong",
    [
        "import specdecode.certify.worlds",
        "from specdecode import certify",
        "def late():\n    from specdecode.certify import certify",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from specdecode.certify import Witness",
    ],
)
def test_an_import_the_other_way_is_seen(wrong):
    """`certify` builds on `rule`, so `rule` must not build on it, however it says so."""
    with pytest.raises(CycleError):
        order(iter([*sources(), ("rule", wrong)]))


def test_exceptions_are_needed_and_have_a_reason():
    found = {(room, other) for room, source in sources() for other in rooms_in(source)}
    assert set(EXCEPTED) <= found
    assert all(EXCEPTED.values())


@pytest.mark.parametrize("old", sorted(MOVED))
def test_an_old_name_is_the_very_same_module(old):
    assert importlib.import_module(old) is importlib.import_module(MOVED[old])


@pytest.mark.parametrize("old", sorted(MOVED))
def test_an_old_name_imports_in_a_fresh_interpreter(old, run_python):
    package, name = old.split(".")
    code = f"from {package} import {name}; import {old}, {MOVED[old]}; assert {old} is {name} is {MOVED[old]}"
    ran = run_python(code)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    ("old", "names"),
    [
        ("formal", "Draw E Flip Ret bind block complete cut draw flip generate law one_hot one_token"),
        ("formal", "plain program propose rounds runs sampler_match token"),
        ("gtest", "g_test resolution two_sample_test"),
        ("paths", "Inexact LazyUniform NotReproducible Path TooLarge walk"),
        ("sameness", "Sameness Sample compare_samples same_law"),
        ("symbolic", "Answer Undecided certify_for_all_rows completed_round for_all_rows"),
        ("worlds", "World extreme_worlds generator_worlds memory_world table verifier_worlds"),
    ],
)
def test_old_names_have_what_they_had(old, names):
    module = importlib.import_module(f"specdecode.{old}")
    assert [name for name in names.split() if not hasattr(module, name)] == []


def test_a_name_that_never_was_is_refused():
    with pytest.raises(ModuleNotFoundError, match=r"specdecode\.nonsense"):
        importlib.import_module("specdecode.nonsense")
