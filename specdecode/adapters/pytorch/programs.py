"""The law of a torch program, two of them compared, and a torch verifier in the shape `certify` asks for."""

import inspect
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import torch

from specdecode import exact
from specdecode.adapters.pytorch.mode import Draws
from specdecode.checks import shown
from specdecode.exact import Comparison, Law, outcome_of

__all__ = ["as_verifier", "compare", "drawing", "law"]

_MAX_PATHS = 20_000  # a run of a model costs milliseconds where a rule costs microseconds


def law(program: Callable[[], Hashable], *, max_paths: int = _MAX_PATHS, **limits: Any) -> Law:
    """The exact law of a program that draws through torch.

    Parameters
    ----------
    program : callable
        program() -> a hashable outcome, or a tensor or array, which becomes nested tuples. It is run once a
        path, so whatever a run changes it must itself reset.
    max_paths : int
        Limit on the number of paths.
    **limits
        As for `specdecode.exact.law`.

    Returns
    -------
    Law

    Raises
    ------
    Inexact
        If a draw goes through an operation that is not followed; names it. So does a draw on a GPU.
    NotReproducible, TooLarge
        As `specdecode.exact.law`; TooLarge also if a row has more than 1000 tokens to choose from.

    Guarantee
    ---------
    Under ideal uniforms, exact for the program's own arithmetic: a threshold in float32 is taken at its exact
    value, a row handed to `multinomial` is divided by its exact sum (thm-law in chapter 4). A float32 uniform
    of torch lies on a grid of 2⁻²⁴. A `torch.Generator` of the program's own counts as ideal too, unless two
    draws begin from one state of it. Logits that race with Gumbel noise are exponentiated in float64.

    Examples
    --------
    >>> import torch
    >>> law(lambda: bool(torch.rand(1) < 0.25))
    Law({False: 3/4, True: 1/4})
    >>> law(lambda: torch.multinomial(torch.tensor([1.0, 3.0]), 1))
    Law({(0,): 1/4, (1,): 3/4})
    """
    return exact.law(drawing(program), max_paths=max_paths, **limits)


def compare(
    program_a: Callable[[], Hashable],
    program_b: Callable[[], Hashable],
    *,
    tolerance: float = 1e-6,
    max_paths: int = _MAX_PATHS,
    **limits: Any,
) -> Comparison:
    """Enumerate two torch programs and compare their laws: speculation on and off, say.

    Parameters
    ----------
    program_a, program_b : callable
        As for `law`.
    tolerance : float
        Largest total variation that counts as equal; 1e-6 is float32 rounding over a few tokens.
    max_paths, **limits
        As for `law`.

    Returns
    -------
    Comparison

    Raises
    ------
    Inexact, NotReproducible, TooLarge
        As `law`.

    Guarantee
    ---------
    That of `law`, for each of the two.

    Examples
    --------
    >>> import torch
    >>> row = torch.tensor([0.5, 0.25, 0.25])
    >>> def race():
    ...     return (row / torch.empty(3).exponential_()).argmax()
    >>> compare(lambda: torch.multinomial(row, 1)[0], race).equal
    True
    """
    programs = drawing(program_a), drawing(program_b)
    return exact.compare(*programs, tolerance=tolerance, max_paths=max_paths, **limits)


def drawing(program: Callable[[], Any]) -> Callable[[Any], Hashable]:
    """A torch program as a program of an rng, so that all of `specdecode.exact` applies to it.

    Parameters
    ----------
    program : callable
        program() -> outcome.

    Returns
    -------
    callable
        (rng) -> the outcome, made hashable. A lazy rng answers the draws of torch; any other only seeds
        them, and torch draws for itself.

    Examples
    --------
    >>> import torch
    >>> from specdecode.testing import assert_same_law
    >>> coin = drawing(lambda: torch.bernoulli(torch.tensor(0.5)).item())
    >>> assert_same_law(coin, lambda rng: float(rng.random() < 0.5)).equal
    True
    """

    if not callable(program):
        raise ValueError(f"program is {shown(program)}; want a function of no arguments that draws by torch")

    def run(rng: Any) -> Any:
        return _with_draws(rng, program)

    run.__name__ = run.__qualname__ = getattr(program, "__qualname__", type(program).__name__)
    return run


def as_verifier(function: Callable[..., Any], dtype: Any = None) -> Callable[..., list[int]]:
    """A torch verifier in the shape that `certify` asks for.

    Parameters
    ----------
    function : callable
        function(draft_tokens, draft_dists, target_dists[, generator]) -> emitted token ids, given tensors of
        shape (k,), (k, V) and (k + 1, V); the first int64.
    dtype : torch.dtype, optional
        Of the rows; float32 if left out, for which certify's tolerance is 1e-6.

    Returns
    -------
    callable
        A verifier (`specdecode.verifiers`) on NumPy arrays.

    Raises
    ------
    ValueError
        If `function` takes neither three nor four arguments.

    Examples
    --------
    >>> from specdecode.certify import certify
    >>> def emits_the_draft(draft_tokens, draft_dists, target_dists):
    ...     return draft_tokens[:1]
    >>> certify(as_verifier(emits_the_draft), tolerance=1e-6).verdict
    'not exact'
    """
    dtype = dtype or torch.float32
    takes_generator = _takes_generator(function)

    def verifier(draft_tokens: Any, draft_dists: Any, target_dists: Any, rng: Any) -> list[int]:
        given = [torch.tensor(np.asarray(draft_tokens, dtype=np.int64))]
        given += [
            torch.tensor(np.asarray(rows, dtype=float), dtype=dtype) for rows in (draft_dists, target_dists)
        ]

        def run() -> Any:
            generator = [torch.Generator().manual_seed(_seed(rng) + 1)] if takes_generator else []
            return function(*given, *generator)

        emitted = _with_draws(rng, run)
        return list(emitted[0] if len(emitted) == 1 and isinstance(emitted[0], tuple) else emitted)

    name = getattr(function, "__qualname__", type(function).__name__)
    verifier.__qualname__ = f"as_verifier({name})"
    return verifier


def _takes_generator(function: Callable[..., Any]) -> bool:
    if not callable(function):
        raise ValueError(f"function is {shown(function)}; want a verifier on torch tensors")
    for count in (3, 4):
        try:
            inspect.signature(function).bind(*range(count))
            return count == 4
        except TypeError:
            continue
    raise ValueError(
        f"{getattr(function, '__qualname__', function)} takes neither three nor four arguments; "
        f"want verifier(draft_tokens, draft_dists, target_dists[, generator])"
    )


def _with_draws(rng: Any, program: Callable[[], Any]) -> Any:
    """Run a program on the draws of a lazy rng, or on torch's own, seeded by a plain one."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_seed(rng))
        if not isinstance(rng, exact.LazyGenerator):
            return outcome_of(program())
        with Draws(rng):
            return outcome_of(program())  # inside, where a draw in it is told from a number


def _seed(rng: Any) -> int:
    return 0x5EC0DE if isinstance(rng, exact.LazyGenerator) else int(rng.integers(2**62))
