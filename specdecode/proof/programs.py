"""The formal programs, running: every definition of book/proofs/programs.v, in its order and by its name.

Coq proves of those definitions, for every vocabulary, every draft length and every pair of models, that a
round and a text have the target's law (thm-formal in chapter 11). That theorem is about texts in Coq; this is
the same text in Python, where it can be run on fractions and put beside the package that people call.

A program returns, draws a token from a row, or flips a coin. `@program` lets one write `x = yield m` for
Coq's `x <- m ;;`. Tokens are ints, texts tuples of them, rows sequences of numbers in any arithmetic, and a
model is a function from a text to a row. Nothing is checked here: `runs` asks whether a program can run.
Where Coq's x/0 is 0, a residual of nothing raises; `replacement` never asks for one.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import wraps
from typing import Any

from specdecode.exact import Law

__all__ = [
    "Draw",
    "E",
    "Flip",
    "Ret",
    "bind",
    "block",
    "complete",
    "cut",
    "draw",
    "flip",
    "generate",
    "law",
    "one_hot",
    "one_token",
    "plain",
    "program",
    "propose",
    "rounds",
    "runs",
    "sampler_match",
    "token",
]

Row = Sequence[Any]
Text = Sequence[int]
Model = Callable[[Text], Row]
Stop = Callable[[int], bool]


# Programs.


@dataclass(frozen=True)
class Ret:
    """Return a value."""

    value: Any


@dataclass(frozen=True)
class Draw:
    """Draw a token from a row, and go on with it."""

    row: Row
    next: Callable[[int], "Prog"]


@dataclass(frozen=True)
class Flip:
    """Flip a coin that says yes with probability `chance`, and go on with its answer."""

    chance: Any
    next: Callable[[bool], "Prog"]


Prog = Ret | Draw | Flip
Steps = Generator[Prog, Any, Any]  # the body of a program: `x = yield m`


def E(m: Prog, f: Callable[[Any], Any]) -> Any:
    """Expected value of f of the outcome of m.

    Examples
    --------
    >>> E(draw([Fraction(1, 4), Fraction(3, 4)]), lambda token: 8 * token)
    Fraction(6, 1)
    """
    match m:
        case Ret(a):
            return f(a)
        case Draw(p, then):
            return sum(p[x] * E(then(x), f) for x in range(len(p)))
        case Flip(c, then):
            return c * E(then(True), f) + (1 - c) * E(then(False), f)


def bind(m: Prog, g: Callable[[Any], Prog]) -> Prog:
    """Run m, then the program that g makes of its outcome."""
    match m:
        case Ret(a):
            return g(a)
        case Draw(p, then):
            return Draw(p, lambda x: bind(then(x), g))
        case Flip(c, answered):
            return Flip(c, lambda b: bind(answered(b), g))


def program(body: Callable[..., Steps]) -> Callable[..., Prog]:
    """Let a generator function be read as a program: `x = yield m` binds x, `return` returns.

    The body is run anew for each sequence of answers, so it should do nothing else.

    Examples
    --------
    >>> @program
    ... def two_flips(c):
    ...     first = yield flip(c)
    ...     second = yield flip(c)
    ...     return first + second
    >>> law(two_flips(Fraction(1, 3)))
    Law({0: 4/9, 1: 4/9, 2: 1/9})
    """

    @wraps(body)
    def made(*args: Any) -> Prog:
        def after(answers: tuple[Any, ...]) -> Prog:
            steps = body(*args)
            try:
                asked = next(steps)
                for answer in answers:
                    asked = steps.send(answer)
            except StopIteration as done:
                return Ret(done.value)
            return bind(asked, lambda answer: after((*answers, answer)))

        return after(())

    return made


def draw(p: Row) -> Prog:
    """A token drawn from p."""
    return Draw(p, Ret)


def flip(c: Any) -> Prog:
    """Yes with probability c."""
    return Flip(c, Ret)


def distribution(p: Row) -> bool:
    """Whether p is non-negative and sums to 1."""
    return all(entry >= 0 for entry in p) and sum(p) == 1


def runs(m: Prog) -> bool:
    """Whether every row m draws from is a distribution and every coin a probability.

    Examples
    --------
    >>> runs(draw([Fraction(1, 2), Fraction(1, 2)])), runs(flip(Fraction(4, 3)))
    (True, False)
    """
    match m:
        case Ret(_):
            return True
        case Draw(p, then):
            return distribution(p) and all(runs(then(x)) for x in range(len(p)))
        case Flip(c, then):
            return 0 <= c <= 1 and all(runs(then(b)) for b in (True, False))


def law(m: Prog) -> Law:
    """The law of m: E at every indicator function at once. Not in Coq, where E itself is the law.

    Parameters
    ----------
    m : program
        Its rows and coins in Fractions; its outcomes hashable.

    Returns
    -------
    Law
        Outcome -> probability, those of probability 0 left out.

    Examples
    --------
    >>> law(bind(flip(Fraction(1, 3)), lambda yes: Ret("yes" if yes else "no")))
    Law({'no': 2/3, 'yes': 1/3})
    """
    masses: dict[Any, Fraction] = {}

    def add(m: Prog, mass: Fraction) -> None:
        match m:
            case Ret(a):
                masses[a] = masses.get(a, 0) + mass
            case Draw(p, then):
                for x in range(len(p)):
                    if p[x] != 0:
                        add(then(x), mass * p[x])
            case Flip(c, then):
                for answer, chance in ((True, c), (False, 1 - c)):
                    if chance != 0:
                        add(then(answer), mass * chance)

    add(m, Fraction(1))
    return Law(masses)


# The rule.


def overlap(p: Row, q: Row) -> Row:
    return [min(p[x], q[x]) for x in range(len(p))]


def excess(p: Row, q: Row) -> Row:
    return [p[x] - overlap(p, q)[x] for x in range(len(p))]


def acceptance(a: Any, b: Any) -> Any:
    return 1 if b == 0 else min(a, b) / b


def residual(p: Row, q: Row) -> Row:
    return [excess(p, q)[x] / sum(excess(p, q)) for x in range(len(p))]


def part(c: Any, p: Row) -> Row:
    return [c * p[x] for x in range(len(p))]


def replacement(c: Any, p: Row, q: Row) -> Row:
    return p if sum(excess(part(c, p), q)) == 0 else residual(part(c, p), q)


@program
def one_token(p: Row, q: Row) -> Steps:
    """Keep a token drafted from q, or replace it: a token with law p."""
    x = yield draw(q)
    kept = yield flip(acceptance(p[x], q[x]))
    return x if kept else (yield draw(replacement(1, p, q)))


# A round: propose, verify. P is the target and Q the draft; s is the text before.


@program
def propose(Q: Model, k: int, more: Callable[[Text], bool], s: Text) -> Steps:
    """Draft up to k tokens, as long as the policy asks for more."""
    if k > 0:
        if more(()):
            x = yield draw(Q(s))
            xs = yield propose(Q, k - 1, lambda xs: more((x, *xs)), (*s, x))
            return (x, *xs)
        else:
            return ()
    else:
        return ()


@program
def token(P: Model, Q: Model, s: Text, xs: Text) -> Steps:
    """The token rule: keep with probability min(1, p/q), replace the first that fails."""
    if xs:
        x, *rest = xs
        kept = yield flip(acceptance(P(s)[x], Q(s)[x]))
        if kept:
            ys = yield token(P, Q, (*s, x), rest)
            return (x, *ys)
        else:
            y = yield draw(replacement(1, P(s), Q(s)))
            return (y,)
    else:
        y = yield draw(P(s))
        return (y,)


def keeps(P: Model, Q: Model, c: Any, s: Text) -> Any:
    left = sum(excess(part(c, P(s)), Q(s)))
    return 1 if left + 1 - c == 0 else left / (left + 1 - c)


@program
def longest(P: Model, Q: Model, c: Any, s: Text, xs: Text) -> Steps:
    if xs:
        x, *rest = xs
        c1 = acceptance(c * P(s)[x], Q(s)[x])
        kept = yield flip(c1 if not rest else keeps(P, Q, c1, (*s, x)))
        longer = yield longest(P, Q, c1, (*s, x), rest)
        return ((x,) if kept else ()) if not longer else (x, *longer)
    else:
        return ()


def share(P: Model, Q: Model, c: Any, s: Text, xs: Text) -> Any:
    if xs:
        x, *rest = xs
        return share(P, Q, acceptance(c * P(s)[x], Q(s)[x]), (*s, x), rest)
    else:
        return c


def last_row(P: Model, Q: Model, c: Any, s: Text, xs: Text, kept: Text) -> Row:
    if len(kept) == len(xs):
        return P((*s, *kept))
    else:
        return replacement(share(P, Q, c, s, kept), P((*s, *kept)), Q((*s, *kept)))


@program
def block(P: Model, Q: Model, s: Text, xs: Text) -> Steps:
    """The block rule: the longest beginning that its own coin keeps, and one more token."""
    kept = yield longest(P, Q, 1, s, xs)
    y = yield draw(last_row(P, Q, 1, s, xs, kept))
    return (*kept, y)


def certain(size: int, x: int) -> Row:
    return [int(y == x) for y in range(size)]


@program
def one_hot(P: Model, s: Text, xs: Text) -> Steps:
    """Keep x with probability p(x), else draw from p without x."""
    if xs:
        x, *rest = xs
        kept = yield flip(acceptance(P(s)[x], 1))
        if kept:
            ys = yield one_hot(P, (*s, x), rest)
            return (x, *ys)
        else:
            y = yield draw(replacement(1, P(s), certain(len(P(s)), x)))
            return (y,)
    else:
        y = yield draw(P(s))
        return (y,)


@program
def sampler_match(P: Model, s: Text, xs: Text) -> Steps:
    """The target's own draws, for as long as they are the drafted tokens."""
    y = yield draw(P(s))
    if xs:
        x, *rest = xs
        if y == x:
            ys = yield sampler_match(P, (*s, x), rest)
            return (x, *ys)
        else:
            return (y,)
    else:
        return (y,)


# Texts of n new tokens at most, ended by the first stop token.


@program
def plain(P: Model, stop: Stop, n: int, s: Text) -> Steps:
    """Plain sampling from the target."""
    if n > 0:
        y = yield draw(P(s))
        if stop(y):
            return (y,)
        else:
            ys = yield plain(P, stop, n - 1, (*s, y))
            return (y, *ys)
    else:
        return ()


def whole(stop: Stop, n: int, ys: Text) -> bool:
    if ys:
        y, *rest = ys
        return n > 0 and (rest == [] if stop(y) else whole(stop, n - 1, rest))
    else:
        return n == 0


def chain(P: Model, s: Text, ys: Text) -> Any:
    if ys:
        y, *rest = ys
        return P(s)[y] * chain(P, (*s, y), rest)
    else:
        return 1


def cut(stop: Stop, n: int, ys: Text) -> Text:
    """What of a text stays: n tokens, up to the first stop token."""
    kept = ys[:n]
    find = next((i for i, y in enumerate(kept) if stop(y)), len(kept))
    return kept[: find + 1]


@program
def complete(P: Model, stop: Stop, n: int, s: Text, ys: Text) -> Steps:
    """Tokens, cut, and continued by the target where the cut leaves room."""
    kept = cut(stop, n, ys)
    if any(map(stop, kept)):
        return kept
    else:
        zs = yield plain(P, stop, n - len(kept), (*s, *kept))
        return (*kept, *zs)


@program
def rounds(
    Q: Model,
    stop: Stop,
    k: Callable[..., int],
    more: Callable[..., bool],
    verify: Callable[..., Prog],
    j: int,
    before: tuple[Any, ...],
    n: int,
    s: Text,
) -> Steps:
    """At most j rounds, until the text is long enough or has stopped."""
    if j > 0 and n > 0:
        xs = yield propose(Q, k(before, s), lambda xs: more(before, s, xs), s)
        ys = yield verify(s, xs)
        kept = cut(stop, n, ys)
        if any(map(stop, kept)):
            return kept
        else:
            now = (*before, (xs, ys))
            zs = yield rounds(Q, stop, k, more, verify, j - 1, now, n - len(kept), (*s, *kept))
            return (*kept, *zs)
    else:
        return ()


def generate(
    Q: Model,
    stop: Stop,
    k: Callable[..., int],
    more: Callable[..., bool],
    verify: Callable[..., Prog],
    n: int,
    s: Text,
) -> Prog:
    """Rounds of `propose` and `verify` until the text has n new tokens or a stop token.

    Parameters
    ----------
    Q : text -> row
        The draft.
    stop : token -> bool
    k : (rounds before, text) -> int
        The most tokens a round may draft.
    more : (rounds before, text, drafted) -> bool
        Whether to draft one more. The rounds before are pairs (drafted, emitted).
    verify : (text, drafted) -> program of emitted tokens
        `token`, `block`, `one_hot` or `sampler_match` with their models filled in.
    n : int
    s : tuple of int

    Returns
    -------
    program
        Of the new tokens, a tuple.

    Guarantee
    ---------
    Its law is that of `plain(P, stop, n, s)`, proved in Coq for those four rules (thm-formal in chapter 11).

    Examples
    --------
    >>> from functools import partial
    >>> p, q = [Fraction(1, 3), Fraction(2, 3)], [Fraction(2, 3), Fraction(1, 3)]
    >>> P, Q, never = lambda s: p, lambda s: q, lambda token: False
    >>> text = generate(Q, never, lambda *_: 2, lambda *_: True, partial(block, P, Q), 2, (0,))
    >>> law(text) == law(plain(P, never, 2, (0,)))
    True
    """
    return rounds(Q, stop, k, more, verify, n, (), n, s)
