"""A verifier for all rows at once: an SMT solver in place of numbers.

`specdecode.exact` follows every outcome of every draw with the rows known. Here the rows are unknown: an
entry is a rational function of unknown reals, of which only facts are known: that they are probabilities,
and what comparisons have told. A comparison that the facts leave open splits the case, as one of a lazy
uniform splits a path. So code that was written for numbers runs unchanged, `induced_from_dists` and whole
verifiers alike: symbolic execution, with Z3 (de Moura and Bjørner 2008) to answer for every tuple of real
rows of a given size (chapter 11).

What needs more than + − × ÷ and comparison (exp, log, float()) cannot be followed, and is refused.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np

from specdecode.checks import as_count

__all__ = ["Answer", "Undecided", "certify_for_all_rows", "completed_round", "for_all_rows"]

_TIMEOUT = 60_000  # milliseconds for one question
_SMALL = 24  # the largest denominator tried for a counterexample
_RAISED = (ArithmeticError, ValueError)  # what code raises on rows it cannot take


class Undecided(RuntimeError):
    """The solver gave up, or the code did what cannot be followed on unknown numbers."""


@dataclass(frozen=True)
class Answer:
    """What holds for all rows, or rows for which it does not.

    Attributes
    ----------
    holds : bool
    cases : int
        Cases into which comparisons split the rows.
    rows : tuple of tuples of Fraction
        If it does not hold: rows for which it does not, with the smallest common denominator, or with any
        if that is above 24.
    found, expected : tuple of Fraction
        What came out there, and what should have.
    error : str
        What was raised there instead, if something was.
    """

    holds: bool
    cases: int
    rows: tuple[tuple[Fraction, ...], ...] = ()
    found: tuple[Fraction, ...] = ()
    expected: tuple[Fraction, ...] = ()
    error: str = ""


def for_all_rows(claim: Callable, vocab_size: int, n_rows: int = 2, *, positive: bool = False) -> Answer:
    """Whether a claim of equality holds for all rows of V real numbers.

    Parameters
    ----------
    claim : callable
        claim(*rows) -> (found, expected), two sequences of numbers of one length. Rows are object arrays,
        shape (V,).
    vocab_size : int
        V ≥ 1.
    n_rows : int
        How many unknown rows the claim is about.
    positive : bool
        Whether to leave out rows with a zero.

    Returns
    -------
    Answer

    Raises
    ------
    Undecided
        If the solver gives up or the claim cannot be followed; the message says at what.
    ImportError
        Without Z3; names the install command.

    Guarantee
    ---------
    `holds` is a theorem about all real rows of that size, as far as Z3 and this room are right, and the code
    depends on nothing but the numbers it is given. A counterexample is evaluated again in Fractions.

    Examples
    --------
    >>> from specdecode.proof import induced_from_dists
    >>> for_all_rows(lambda p, q: (induced_from_dists(p, q), p), 3).holds
    True
    >>> for_all_rows(lambda p, q: (q, p), 1).holds, for_all_rows(lambda p, q: (q, p), 2).holds
    (True, False)
    """
    z3, size = _z3(), as_count(vocab_size, "vocab_size", least=1)
    names = range(as_count(n_rows, "n_rows", least=1))
    rows = [[z3.Real(f"row{name}_{x}") for x in range(size)] for name in names]
    facts = [entry > 0 if positive else entry >= 0 for row in rows for entry in row]
    facts += [z3.Sum(row) == 1 for row in rows]

    def question(case: _Case) -> Any:
        try:
            sides = claim(*(np.array([_Entry(case, entry) for entry in row], dtype=object) for row in rows))
            found, expected = ([_parts(value) for value in side] for side in sides)
        except _RAISED:
            return z3.BoolVal(True)  # nothing comes out at all
        if len(found) != len(expected):
            raise Undecided(f"the claim equates {len(found)} numbers with {len(expected)}")
        return z3.Or(*(a * d != c * b for (a, b), (c, d) in zip(found, expected)))

    wrong, cases = [], 0
    for case, differs in _cases(question, facts):
        cases += 1
        if _satisfied([*case.facts, differs]):
            wrong.append([*case.facts, differs])
    if not wrong:
        return Answer(True, cases)
    there = _smallest(wrong, rows)
    try:
        sides = claim(*(np.array(row, dtype=object) for row in there))
        found, expected = (tuple(Fraction(value) for value in side) for side in sides)
    except _RAISED as error:
        return Answer(False, cases, there, error=repr(error))
    if found == expected:
        raise Undecided(f"the solver's counterexample {there} is none in Fractions")
    return Answer(False, cases, there, found, expected)


def certify_for_all_rows(
    verifier: Callable, vocab_size: int, k: int = 1, *, positive: bool = False
) -> Answer:
    """Whether a round of k drafted tokens has the target's law on its first k tokens, for all real rows.

    Parameters
    ----------
    verifier : callable
        A rule of the shape told in `specdecode.verifiers`. Its rng offers random(), and a uniform may be
        compared with numbers.
    vocab_size, k : int
        V ≥ 1 and k ≥ 1. The number of cases grows fast: V = 4 at k = 1 and V = 2 at k = 2 take seconds.
    positive : bool
        Whether to leave out rows with a zero.

    Returns
    -------
    Answer
        Its rows: the target's after each text of fewer than k tokens, shortest first, then the draft's.

    Raises
    ------
    Undecided, ImportError
        As `for_all_rows`.

    Guarantee
    ---------
    As `for_all_rows`. The bonus row, behind k tokens, is not looked at.

    Examples
    --------
    >>> from specdecode import verifiers
    >>> certify_for_all_rows(verifiers.token, vocab_size=3).holds
    True
    >>> found = certify_for_all_rows(verifiers.greedy, vocab_size=2, positive=True)
    >>> [str(entry) for entry in found.found], [str(entry) for entry in found.expected]
    (['1', '0'], ['1/2', '1/2'])
    """
    size, k = as_count(vocab_size, "vocab_size", least=1), as_count(k, "k", least=1)
    n_texts = sum(size**length for length in range(k))
    return for_all_rows(completed_round(verifier, k), size, 2 * n_texts, positive=positive)


def completed_round(verifier: Callable, k: int = 1) -> Callable:
    """The law of a round's first k tokens, completed by the target, beside the target's own.

    Parameters
    ----------
    verifier : callable
    k : int
        Draft length.

    Returns
    -------
    callable
        A claim for `for_all_rows`, of rows that are unknown or Fractions, ordered as `certify_for_all_rows`
        says: (the probability of each text of k tokens, the target's probability of it).

    Examples
    --------
    >>> from specdecode import verifiers
    >>> p, q = np.array([[Fraction(1, 4), Fraction(3, 4)], [Fraction(1, 2)] * 2])
    >>> completed_round(verifiers.greedy)(p, q)
    ([Fraction(0, 1), Fraction(1, 1)], [Fraction(1, 4), Fraction(3, 4)])
    """

    def claim(*rows: np.ndarray) -> tuple[list[Any], list[Any]]:
        size, half = len(rows[0]), len(rows) // 2
        short = [text for length in range(k) for text in product(range(size), repeat=length)]
        target, draft = dict(zip(short, rows[:half])), dict(zip(short, rows[half:]))
        bonus = np.array([Fraction(1), *[Fraction(0)] * (size - 1)], dtype=object)
        whole = list(product(range(size), repeat=k))

        def onwards(text: tuple[int, ...], start: int) -> Any:
            mass: Any = Fraction(1)
            for i in range(start, k):
                mass = mass * target[text[:i]][text[i]]
            return mass

        masses: dict[tuple[int, ...], Any] = dict.fromkeys(whole, Fraction(0))
        for drafted in whole:
            mass: Any = Fraction(1)
            for i, token in enumerate(drafted):
                mass = mass * draft[drafted[:i]][token]
            if not mass > 0:
                continue
            draft_dists = np.array([draft[drafted[:i]] for i in range(k)])
            target_dists = np.array([*(target[drafted[:i]] for i in range(k)), bonus])
            for run in _runs():
                tokens = verifier(np.array(drafted), draft_dists.copy(), target_dists.copy(), run)
                emitted = tuple(int(token) for token in tokens)[:k]
                for text in whole:
                    if text[: len(emitted)] == emitted:
                        masses[text] += mass * run.probability * onwards(text, len(emitted))
        return list(masses.values()), [onwards(text, 0) for text in whole]

    return claim


# Unknown numbers.


class _Split(BaseException):
    """A comparison that the facts leave open. No `Exception`, so that no program can swallow it."""

    def __init__(self, condition: Any) -> None:
        super().__init__(str(condition))
        self.condition = condition


class _Case:
    """Facts about the unknowns, and what follows from them."""

    def __init__(self, facts: Sequence[Any], known: Mapping[str, bool] = MappingProxyType({})) -> None:
        self.facts, self._known = list(facts), dict(known)
        self._solver = _z3().Solver()
        self._solver.set("timeout", _TIMEOUT)
        self._solver.add(*facts)
        self._models: list[Any] = []  # numbers that satisfy the facts: most questions are open already there

    def decides(self, condition: Any) -> bool:
        """Whether a condition on the unknowns holds; splits the case if it may or may not."""
        z3 = _z3()
        condition = z3.simplify(condition)
        if z3.is_true(condition) or z3.is_false(condition):
            return z3.is_true(condition)
        key = condition.sexpr()
        if key not in self._known:
            seen = {z3.is_true(model.eval(condition, model_completion=True)) for model in self._models}
            possible = [
                answer
                for answer in (True, False)
                if answer in seen or self._may(condition if answer else z3.Not(condition))
            ]
            if len(possible) == 2:
                raise _Split(condition)
            self._known[key] = possible[0]
        return self._known[key]

    def _may(self, condition: Any) -> bool:
        self._solver.push()
        self._solver.add(condition)
        model = _model(self._solver)
        self._solver.pop()
        if model is not None:
            self._models.append(model)
        return model is not None

    def split(self, condition: Any) -> list["_Case"]:
        """The two cases that a condition makes of this one; what is known stays known."""
        z3 = _z3()
        return [_Case([*self.facts, fact], self._known) for fact in (z3.Not(condition), condition)]


def _cases(question: Callable[[_Case], Any], facts: list[Any]) -> Iterator[tuple[_Case, Any]]:
    """Every case that comparisons make of the facts, each with the answer to the question in it."""
    waiting = [_Case(facts)]
    while waiting:
        case = waiting.pop()
        try:
            yield case, question(case)
        except _Split as split:
            waiting += case.split(split.condition)


def _model(solver: Any) -> Any:
    """Numbers that satisfy what a solver was told; None if there are none."""
    z3 = _z3()
    answer = solver.check()
    if answer == z3.unknown:
        raise Undecided(f"the solver gave up ({solver.reason_unknown()}) on {solver.assertions()}")
    return solver.model() if answer == z3.sat else None


def _satisfied(claim: Sequence[Any]) -> Any:
    """Numbers that satisfy a claim, a model of Z3; None if there are none."""
    solver = _z3().Solver()
    solver.set("timeout", _TIMEOUT)
    solver.add(*claim)
    return _model(solver)


def _smallest(claims: list[list[Any]], rows: list[list[Any]]) -> tuple[tuple[Fraction, ...], ...]:
    """Rows that satisfy one of the claims, with the smallest common denominator if one is small."""
    z3 = _z3()
    for denominator in range(1, _SMALL + 1):
        grid = [
            z3.Or(*(entry * denominator == n for n in range(denominator + 1)))
            for row in rows
            for entry in row
        ]
        model = next(filter(None, (_satisfied([*claim, *grid]) for claim in claims)), None)
        if model:
            break
    else:
        model = _satisfied(claims[0])
    return tuple(
        tuple(model.eval(entry, model_completion=True).as_fraction() for entry in row) for row in rows
    )


def _term(value: Any) -> Any:
    """A known number as the solver's; None for what is no number."""
    if isinstance(value, bool | int | float | Fraction | np.integer | np.floating):
        exact = Fraction(int(value)) if isinstance(value, np.integer) else Fraction(value)
        return _z3().RealVal(f"{exact.numerator}/{exact.denominator}")
    return None


def _parts(value: Any) -> tuple[Any, Any]:
    """Numerator and denominator of an entry or a number, as the solver's terms."""
    if isinstance(value, _Entry):
        return value.num, value.den
    return _term(value), _z3().RealVal(1)


class _Entry:
    """A rational function num ÷ den of the unknowns, den > 0; so comparisons need no division."""

    __slots__ = ("case", "den", "num")

    def __init__(self, case: _Case, num: Any, den: Any = None) -> None:
        z3 = _z3()
        self.case, self.num = case, z3.simplify(num)
        self.den = z3.RealVal(1) if den is None else z3.simplify(den)

    def _with(self, other: Any, operation: Callable) -> Any:
        if isinstance(other, _Uniform):
            return NotImplemented
        if not isinstance(other, _Entry):
            term = _term(other)
            if term is None:
                return NotImplemented
            other = _Entry(self.case, term)
        return operation(self, other)

    def _plus(self, other: "_Entry") -> "_Entry":
        if self.den.eq(other.den):
            return _Entry(self.case, self.num + other.num, self.den)
        return _Entry(self.case, self.num * other.den + other.num * self.den, self.den * other.den)

    def _times(self, other: "_Entry") -> "_Entry":
        if self.den.eq(other.num):
            return _Entry(self.case, self.num, other.den)
        if self.num.eq(other.den):
            return _Entry(self.case, other.num, self.den)
        return _Entry(self.case, self.num * other.num, self.den * other.den)

    def _inverse(self) -> "_Entry":
        if self.case.decides(self.num == 0):
            raise ZeroDivisionError("division by an entry that is 0")
        if self.case.decides(self.num > 0):
            return _Entry(self.case, self.den, self.num)
        return _Entry(self.case, -self.den, -self.num)

    def _below(self, other: "_Entry") -> bool:
        if self.den.eq(other.den):
            return self.case.decides(self.num < other.num)
        return self.case.decides(self.num * other.den < other.num * self.den)

    def _equals(self, other: "_Entry") -> bool:
        return self.case.decides(self.num * other.den == other.num * self.den)

    def __add__(self, other: Any) -> Any:
        return self._with(other, _Entry._plus)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a._plus(-b))

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b._plus(-a))

    def __mul__(self, other: Any) -> Any:
        return self._with(other, _Entry._times)

    def __truediv__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a._times(b._inverse()))

    def __rtruediv__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b._times(a._inverse()))

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> "_Entry":
        return _Entry(self.case, -self.num, self.den)

    def __abs__(self) -> "_Entry":
        return -self if self < 0 else self

    def __lt__(self, other: Any) -> Any:
        return self._with(other, _Entry._below)

    def __gt__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b._below(a))

    def __le__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: not b._below(a))

    def __ge__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: not a._below(b))

    def __eq__(self, other: Any) -> Any:
        return self._with(other, _Entry._equals)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return self != 0

    def __float__(self) -> float:
        raise Undecided(
            "an unknown entry was turned into a float; only + − × ÷ and comparison can be followed"
        )

    __int__ = __float__

    def __repr__(self) -> str:
        return f"{self.num}" if self.den.eq(_z3().RealVal(1)) else f"({self.num}) / ({self.den})"


# Uniforms against unknown numbers.


class _Run:
    """One way through a verifier's draws: its rng."""

    def __init__(self, script: Sequence[bool]) -> None:
        self.script, self._asked, self.forks = list(script), 0, []
        self._uniforms: list[_Uniform] = []

    def random(self) -> "_Uniform":
        self._uniforms.append(_Uniform(self))
        return self._uniforms[-1]

    def answer(self) -> bool:
        if self._asked == len(self.script):
            self.forks.append([*self.script, False])
            self.script.append(True)
        self._asked += 1
        return self.script[self._asked - 1]

    @property
    def probability(self) -> Any:
        product: Any = Fraction(1)
        for uniform in self._uniforms:
            product = product * (uniform.high - uniform.low)
        return product


def _runs() -> Iterator[_Run]:
    """Every run, each forking where a comparison of a uniform could have gone the other way."""
    waiting: list[list[bool]] = [[]]
    while waiting:
        run = _Run(waiting.pop())
        yield run
        waiting += run.forks


class _Uniform:
    """A uniform known to lie in [low, high), whose ends may be unknown entries."""

    __slots__ = ("_run", "high", "low")

    def __init__(self, run: _Run) -> None:
        self._run, self.low, self.high = run, Fraction(0), Fraction(1)

    def _below(self, threshold: Any) -> Any:
        if threshold is self:
            return False  # as a sorted search asks of its key
        if not isinstance(threshold, _Entry) and _term(threshold) is None:
            return NotImplemented
        if not isinstance(threshold, _Entry):
            threshold = Fraction(threshold)
        if threshold <= self.low:
            return False
        if threshold >= self.high:
            return True
        below = self._run.answer()
        if below:
            self.high = threshold
        else:
            self.low = threshold
        return below

    def __lt__(self, other: Any) -> Any:
        return self._below(other)

    def __ge__(self, other: Any) -> Any:
        below = self._below(other)
        return below if below is NotImplemented else not below

    def __le__(self, other: Any) -> Any:
        return True if other is self else self._below(other)  # ties have probability 0

    def __gt__(self, other: Any) -> Any:
        return False if other is self else self.__ge__(other)

    def __float__(self) -> float:
        raise Undecided("a uniform was turned into a float; only comparison with numbers can be followed")


def _z3() -> ModuleType:
    try:
        import z3
    except ImportError as missing:
        raise ImportError("for all rows at once needs Z3: pip install 'specdecode[smt]'") from missing
    return z3
