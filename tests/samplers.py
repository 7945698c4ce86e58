"""Right and wrong samplers, in the styles in which people write them.

The first word of each docstring is the truth, RIGHT or WRONG, and what follows is the kind.
"""

import numpy as np


def draw(row, u):
    cumulative = np.cumsum(row)
    return int(np.searchsorted(cumulative / cumulative[-1], u, side="right"))


def residual(p, q):
    rest = np.maximum(p - q, 0)
    return rest if rest.any() else p


def rule(drafted, q, p, coin, ratio=lambda p, q, x: p[x] / q[x], replaced=residual):
    """The token rule on coins from `coin()`."""
    for i, x in enumerate(drafted):
        if not coin() < ratio(p[i], q[i], x):
            return [*map(int, drafted[:i]), draw(replaced(p[i], q[i]), coin())]
    return [*map(int, drafted), draw(p[len(drafted)], coin())]


# Right verifiers


def unguarded(drafted, q, p, rng):
    """RIGHT rounding: 0/0 where p and q differ by an ulp, on a path of probability 1e-16."""
    return rule(drafted, q, p, rng.random, replaced=lambda p, q: np.maximum(p - q, 0))


def items(drafted, q, p, rng):
    """RIGHT numpy: .item() of each of a vector of coins."""
    coins = iter(rng.random(len(drafted) + 1))
    return rule(drafted, q, p, lambda: next(coins).item())


def finite(drafted, q, p, rng):
    """RIGHT numpy: asserts that its coins are finite and no NaN."""
    coins = rng.random(len(drafted) + 1)
    assert np.isfinite(coins).all()
    assert not np.isnan(coins).any()
    return rule(drafted, q, p, iter(coins).__next__)


def ranges(drafted, q, p, rng):
    """RIGHT numpy: uniforms between arrays."""
    n = len(drafted) + 1
    return rule(drafted, q, p, iter(rng.uniform(np.zeros(n), np.ones(n))).__next__)


def row_by_row(drafted, q, p, rng):
    """RIGHT numpy: a multinomial of all rows, kept while it is the drafted token."""
    tokens = rng.multinomial(1, p).argmax(axis=1).tolist()
    same = next((i for i in range(len(drafted)) if tokens[i] != drafted[i]), len(drafted))
    return tokens[: same + 1]


def in_logarithms(drafted, q, p, rng):
    """RIGHT functions of a uniform: coins as log1p(−u)."""
    for i, x in enumerate(drafted):
        with np.errstate(divide="ignore"):
            threshold = np.log(p[i][x]) - np.log(q[i][x])
        if not np.log1p(-rng.random(1))[0] < threshold:
            return [*map(int, drafted[:i]), draw(residual(p[i], q[i]), rng.random())]
    return [*map(int, drafted), draw(p[len(drafted)], rng.random())]


def squared(drafted, q, p, rng):
    """RIGHT functions of a uniform: u² against a squared ratio."""
    for i, x in enumerate(drafted):
        if not rng.random() ** 2 < (p[i][x] / q[i][x]) ** 2:
            return [*map(int, drafted[:i]), draw(residual(p[i], q[i]), rng.random())]
    return [*map(int, drafted), draw(p[len(drafted)], rng.random())]


def raced(drafted, q, p, rng):
    """RIGHT races: the token of a row is the first of exponential times."""

    def first(row):
        return int(np.argmin(-np.log1p(-rng.random(len(row))) / np.where(row > 0, row, 1e-300)))

    for i, x in enumerate(drafted):
        if not rng.random() < p[i][x] / q[i][x]:
            return [*map(int, drafted[:i]), first(residual(p[i], q[i]))]
    return [*map(int, drafted), first(p[len(drafted)])]


def gumbel(drafted, q, p, rng):
    """RIGHT races: arg-max of log p + Gumbel noise, kept while it is the drafted token."""
    emitted = []
    for i, row in enumerate(p):
        with np.errstate(divide="ignore"):
            emitted.append(int(np.argmax(np.log(row) + rng.gumbel(size=len(row)))))
        if i == len(drafted) or emitted[-1] != drafted[i]:
            break
    return emitted


def own_rng_for_nothing(drafted, q, p, rng):
    """RIGHT for k ≥ 1: with nothing drafted it draws from an rng of its own."""
    if len(drafted) == 0:
        return [int(np.random.default_rng().choice(p.shape[1], p=p[0]))]
    return rule(drafted, q, p, rng.random)


def exactly_one(drafted, q, p, rng):
    """RIGHT where it is asked on worlds of k = 1 alone."""
    assert len(drafted) == 1
    return rule(drafted, q, p, rng.random)


# Wrong verifiers


def eight_bits(drafted, q, p, rng):
    """WRONG width: ids in eight bits."""
    return [int(x) for x in np.array(rule(drafted, q, p, rng.random)).astype(np.uint8)]


def sixteen_bits(drafted, q, p, rng):
    """WRONG width: ids in sixteen bits."""
    return [int(x) for x in np.array(rule(drafted, q, p, rng.random)).astype(np.uint16)]


def one_tile(drafted, q, p, rng):
    """WRONG width: the residual's total over the first 32 entries."""
    for i, x in enumerate(drafted):
        if not rng.random() < p[i][x] / q[i][x]:
            rest = np.maximum(p[i] - q[i], 0)
            cumulative = np.cumsum(rest / max(rest[:32].sum(), 1e-30))
            return [*drafted[:i], min(int(np.searchsorted(cumulative, rng.random(), "right")), len(rest) - 1)]
    return [*drafted, draw(p[len(drafted)], rng.random())]


def edge_of_1000(drafted, q, p, rng):
    """WRONG width: past 1000 tokens the replacement is drawn from p; read from its source."""
    wide = p.shape[1] > 1000
    return rule(drafted, q, p, rng.random, replaced=(lambda p, q: p) if wide else residual)


def six_at_most(drafted, q, p, rng):
    """WRONG depth: the seventh drafted token is not tested."""
    head = rule(drafted[:6], q[:6], p[:7], rng.random)
    if len(head) <= 6 or len(drafted) <= 6:
        return head
    return [*map(int, drafted), draw(p[len(drafted)], rng.random())]


def near_enough(drafted, q, p, rng):
    """WRONG nearness: accepts where p and q are within 2e-3."""
    return rule(drafted, q, p, rng.random, lambda p, q, x: 1.0 if abs(p[x] - q[x]) < 2e-3 else p[x] / q[x])


def cuts_off(drafted, q, p, rng):
    """WRONG nearness: entries below 1e-4 count as 0."""
    rows = [np.where(row < 1e-4, 0, row) for row in p]
    return rule(drafted, q, [row / row.sum() for row in rows], rng.random)


class EveryOtherCall:
    """WRONG calls: every other one has one minus the coins of the one before."""

    __name__ = "every_other_call"

    def __init__(self):
        self.kept = []

    def __call__(self, drafted, q, p, rng):
        again, self.kept = self.kept, []
        coins = iter([*(1 - u for u in again), *rng.random(len(drafted) + 2)])

        def coin():
            u = next(coins)
            if not again:
                self.kept.append(u)
            return u

        return rule(drafted, q, p, coin)


def other_branch(drafted, q, p, rng):
    """WRONG for real floats: takes another branch for them."""
    coins = [rng.random() for _ in range(len(drafted) + 2)]
    real = isinstance(coins[0], float)
    return rule(drafted, q, p, iter(coins).__next__, lambda p, q, x: p[x] if real else p[x] / q[x])


def numpy_branch(drafted, q, p, rng):
    """WRONG for real floats: takes another branch for an array of them."""
    coins = rng.random(len(drafted) + 2)
    real = coins.dtype == np.float64
    return rule(drafted, q, p, iter(coins).__next__, lambda p, q, x: p[x] if real else p[x] / q[x])


def past_five_tokens(drafted, q, p, rng):
    """WRONG width, and it draws for itself: sampled, on worlds of five tokens and more too."""
    own = np.random.default_rng()
    return rule(drafted, q, p, own.random, replaced=residual if p.shape[1] < 5 else (lambda p, q: p))


# Generators


def rounds(target, draft, prefix, n_tokens, k, rng, history, trusts=lambda log: False):
    """A loop whose target is shown `history(text, drafted, log)` in place of the text."""
    text, log, end = list(prefix), [], len(prefix) + n_tokens
    while len(text) < end:
        drafted, rows = [], []
        for _ in range(k):
            rows.append(np.array(draft.next_dist([*text, *drafted])))
            drafted.append(draw(rows[-1], rng.random()))
        new = []
        for i, x in enumerate(drafted):
            p = np.array(target.next_dist(history(text, drafted[:i], log)))
            if trusts(log) or rng.random() < p[x] / rows[i][x]:
                new.append(x)
                continue
            new.append(draw(residual(p, rows[i]), rng.random()))
            break
        else:
            new.append(draw(target.next_dist(history(text, drafted, log)), rng.random()))
        log.append((len(drafted), len(new) - 1))
        text += new
    return text[len(prefix) : end]


def plain_rounds(target, draft, prefix, n_tokens, k, rng):
    """RIGHT rounds, in a loop of one's own."""
    return rounds(target, draft, prefix, n_tokens, k, rng, lambda text, drafted, log: [*text, *drafted])


def last_token_twice(target, draft, prefix, n_tokens, k, rng):
    """WRONG memory: from the second round on the last token is fed twice."""

    def history(text, drafted, log):
        return [*text, *text[-1:], *drafted] if log else [*text, *drafted]

    return rounds(target, draft, prefix, n_tokens, k, rng, history)


def shifted_positions(target, draft, prefix, n_tokens, k, rng):
    """WRONG memory: from the second round on positions are off by one."""

    def history(text, drafted, log):
        return [text[0], *text, *drafted] if log else [*text, *drafted]

    return rounds(target, draft, prefix, n_tokens, k, rng, history)


def window_of_16(target, draft, prefix, n_tokens, k, rng):
    """WRONG memory: the target sees no more than the last 16 tokens."""
    return rounds(target, draft, prefix, n_tokens, k, rng, lambda text, drafted, log: [*text, *drafted][-16:])


def trusting(target, draft, prefix, n_tokens, k, rng):
    """WRONG rounds: after two that were kept whole it stops verifying."""

    def trusts(log):
        return len(log) > 1 and all(kept == drafted >= 2 for drafted, kept in log[-2:])

    return rounds(
        target, draft, prefix, n_tokens, k, rng, lambda text, drafted, log: [*text, *drafted], trusts
    )


VERIFIERS = [
    *(unguarded, items, finite, ranges, row_by_row, in_logarithms, squared, raced, gumbel),
    *(own_rng_for_nothing, eight_bits, sixteen_bits, one_tile, edge_of_1000, six_at_most, near_enough),
    *(cuts_off, EveryOtherCall(), other_branch, numpy_branch, past_five_tokens),
]
GENERATORS = [plain_rounds, last_token_twice, shifted_positions, window_of_16, trusting]


def truth(sampler):
    """RIGHT or WRONG, as its docstring says."""
    return sampler.__doc__.split()[0]


def kind(sampler):
    """What it is right or wrong about."""
    return sampler.__doc__.split(":")[0].split(maxsplit=1)[1].split(",")[0]
