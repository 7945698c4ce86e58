"""Programs with one definition altered, as alterations.toml lists them, and what is wrong with each.

Coq refuses the altered proofs (check.py); here the twin in `specdecode.proof.programs` is altered alike, and
run in fractions.
"""

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

from specdecode.certify.worlds import DENSE
from specdecode.proof import programs as formal

__all__ = ["altered", "refuted"]


def altered(definition: str, old: str, new: str) -> ModuleType:
    """`specdecode.proof.programs` with one definition altered: a program that no proof should let pass.

    Parameters
    ----------
    definition : str
        The name of a function there.
    old, new : str
        A piece of its source that stands in it once, and what to put there.

    Returns
    -------
    module
        A copy; the original stays as it is.

    Raises
    ------
    ValueError
        If the source does not have `old` exactly once.

    Examples
    --------
    >>> from fractions import Fraction
    >>> uncapped = altered("acceptance", "min(a, b) / b", "a / b")
    >>> uncapped.acceptance(Fraction(2, 3), Fraction(1, 3)), formal.acceptance(Fraction(2, 3), Fraction(1, 3))
    (Fraction(2, 1), Fraction(1, 1))
    """
    text = inspect.getsource(formal)
    found = re.search(rf"^def {definition}\(.*?(?=\n\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    if not found or found[0].count(old) != 1:
        raise ValueError(f"{definition} has {old!r} {found[0].count(old) if found else 0} times; want once")
    module = ModuleType(f"{formal.__name__}_altered")
    sys.modules[module.__name__] = module  # dataclasses look their module up while it is made
    try:
        changed = found[0].replace(old, new)
        whole = text[: found.start()] + changed + text[found.end() :]
        exec(compile(whole, str(formal.__file__), "exec"), module.__dict__)
    finally:
        del sys.modules[module.__name__]
    return module


def refuted(programs: ModuleType) -> str | None:
    """What of these programs misses the target's law, or cannot run, on one small world.

    Parameters
    ----------
    programs : module
        `specdecode.proof.programs`, or one that `altered` made.

    Returns
    -------
    str or None
        The rule, and what is wrong; None if nothing is, on this world: V = 3, k = 2, a round completed to
        three tokens and a text of two, without a stop token, and with one and a policy that stops at a
        token it doubts.

    Examples
    --------
    >>> refuted(altered("token", "y = yield draw(P(s))", "y = yield draw(Q(s))"))
    'token: another law'
    """
    P, Q = (partial(_row_after, model.rows.tolist()) for model in DENSE)
    rules = {
        "token": partial(programs.token, P, Q),
        "block": partial(programs.block, P, Q),
        "one_hot": partial(programs.one_hot, P),
        "sampler_match": partial(programs.sampler_match, P),
    }
    settings: list[tuple[formal.Stop, Callable[[Any, Any, Any], bool]]] = [
        (lambda token: False, lambda before, s, xs: True),
        (lambda token: token == 1, lambda before, s, xs: xs[-1:] != (2,)),
    ]

    def differs(m: formal.Prog, n: int, stop: formal.Stop) -> bool:
        plain = formal.law(formal.plain(P, stop, n, (0,)))
        return bool(programs.E(m, lambda ys: 1) != 1) or bool(programs.law(m) != plain)

    for stop, more in settings:
        for rule, verify in rules.items():
            drafted = programs.propose(Q, 2, partial(more, (), (0,)), (0,))
            emitted = programs.bind(drafted, partial(verify, (0,)))
            if not programs.runs(emitted):
                return f"{rule}: cannot run"
            if differs(programs.bind(emitted, partial(programs.complete, P, stop, 3, (0,))), 3, stop):
                return f"{rule}: another law"
        text = programs.generate(Q, stop, lambda before, s: 2, more, rules["one_hot"], 2, (0,))
        if differs(text, 2, stop):  # the rules have been seen above, so any of them shows the loop
            return "generate: another law"
    return None


def _row_after(rows: Sequence[formal.Row], s: formal.Text) -> formal.Row:
    return rows[s[-1]]
