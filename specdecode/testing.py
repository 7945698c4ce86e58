"""One line in someone else's test suite, in the manner of `numpy.testing`.

The message of a failure is the certificate with its witness.
"""

import inspect
from collections.abc import Callable
from typing import Any

from specdecode.certify import Certificate, Sameness, certify, certify_generator, same_law

__all__ = ["assert_exact", "assert_same_law"]


def assert_exact(
    sampler: Callable[..., Any], *, sampled_is_enough: bool = False, **options: Any
) -> Certificate:
    """Fail unless a verifier or a generator is certified exact.

    Parameters
    ----------
    sampler : callable
        A verifier (four arguments) or a generator (six), as for `certify` and `certify_generator`.
    sampled_is_enough : bool
        Also pass when the law could not be enumerated and sampling, which could have, found no difference.
    **options
        As for `certify` or `certify_generator`.

    Returns
    -------
    Certificate

    Raises
    ------
    AssertionError
        With the certificate and its witness as the message.
    ValueError
        If `sampler` takes neither four nor six arguments.

    Guarantee
    ---------
    That of `certify`.

    Examples
    --------
    >>> from specdecode import verifiers
    >>> assert_exact(verifiers.token).verdict
    'exact'
    """
    certificate = (certify_generator if _is_generator(sampler) else certify)(sampler, **options)
    if sampled_is_enough and certificate.verdict == "no difference found" and certificate.has_power:
        return certificate
    return certificate.require_exact()


def _is_generator(sampler: Callable[..., Any]) -> bool:
    """Whether it requires six arguments; options with defaults do not count."""
    try:
        parameters = inspect.signature(sampler).parameters.values()
    except (TypeError, ValueError):
        return False  # certify says what it wants
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is p.empty for p in parameters) == 6


def assert_same_law(
    program_a: Callable[[Any], Any],
    program_b: Callable[[Any], Any],
    *,
    tolerance: float = 0,
    sampled_is_enough: bool = False,
    **options: Any,
) -> Sameness:
    """Fail unless two programs have the same law: speculation on and off, say.

    Parameters
    ----------
    program_a, program_b : callable
        Each program(rng) -> a hashable outcome; for a torch program `specdecode.adapters.pytorch.drawing`
        makes one.
    tolerance : number
        Largest total variation that counts as the same; about 1e-12 for float programs.
    sampled_is_enough : bool
        Also pass when one of them could not be enumerated and sampling found no difference.
    **options
        As for `specdecode.certify.same_law`.

    Returns
    -------
    Sameness

    Raises
    ------
    AssertionError
        Naming the distance and the outcome that differs most, with its two probabilities.

    Guarantee
    ---------
    That of `same_law`.

    Examples
    --------
    >>> assert_same_law(lambda rng: rng.random() < 0.5, lambda rng: 1 - rng.random() < 0.5).equal
    True
    """
    found = same_law(program_a, program_b, tolerance=tolerance, **options)
    if found.equal or (sampled_is_enough and found.verdict == "no difference found" and found.has_power):
        return found
    if found.method == "sampled" or found.worst is None or found.total_variation is None:
        raise AssertionError(str(found))
    outcome, a, b = found.worst
    raise AssertionError(
        f"the laws differ by {float(found.total_variation):.6g} in total variation, allowed {tolerance}; "
        f"most at {outcome!r}: {float(a):.6g} against {float(b):.6g}"
    )
