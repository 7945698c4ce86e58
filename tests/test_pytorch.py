"""PyTorch programs under the exact law: what is answered, what is followed, and what is refused.

Every program here is written as public code is, and knows nothing of this package.
"""

import random
import warnings
from fractions import Fraction as F

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from specdecode import exact  # noqa: E402
from specdecode.adapters.pytorch import as_verifier, compare, drawing, law  # noqa: E402
from specdecode.certify import certify, same_law  # noqa: E402
from specdecode.certify.statistics import g_test  # noqa: E402
from specdecode.certify.worlds import DENSE, World  # noqa: E402
from specdecode.exact import Inexact, TooLarge  # noqa: E402

ALPHA = 1e-6  # of each statistical test, before the correction for their number

ROW = torch.tensor([0.5, 0.125, 0.375])
OTHER = torch.tensor([0.25, 0.5, 0.25])
ROW_LAW = {0: F(1, 2), 1: F(1, 8), 2: F(3, 8)}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# Draws


def test_a_uniform_is_compared_entry_by_entry():
    found = law(lambda: torch.rand(2) < torch.tensor([0.25, 0.5]))
    assert found == {
        (True, True): F(1, 8),
        (True, False): F(1, 8),
        (False, True): F(3, 8),
        (False, False): F(3, 8),
    }


DRAWS = {
    "rand": (lambda: torch.rand(()) < 0.25, {True: F(1, 4), False: F(3, 4)}),
    "rand in float64": (
        lambda: torch.rand(1, dtype=torch.float64).item() < 0.25,
        {True: F(1, 4), False: F(3, 4)},
    ),
    "rand_like": (lambda: torch.rand_like(ROW).le(torch.tensor(0.25))[2], {True: F(1, 4), False: F(3, 4)}),
    "uniform_": (lambda: torch.empty(1).uniform_(-1, 3)[0] > 0, {True: F(3, 4), False: F(1, 4)}),
    "uniform_ over a tensor": (lambda: ROW.clone().uniform_()[1] > ROW[1], {True: F(7, 8), False: F(1, 8)}),
    "bernoulli": (lambda: torch.bernoulli(torch.tensor(0.25)), {1.0: F(1, 4), 0.0: F(3, 4)}),
    "bernoulli_": (lambda: torch.empty(1).bernoulli_(0.25).item(), {1.0: F(1, 4), 0.0: F(3, 4)}),
    "randint": (lambda: torch.randint(2, 5, (1,)).item(), {2: F(1, 3), 3: F(1, 3), 4: F(1, 3)}),
    "randint to": (lambda: torch.randint(high=2, size=()), {0: F(1, 2), 1: F(1, 2)}),
    "multinomial": (lambda: torch.multinomial(ROW, 1)[0], ROW_LAW),
    "multinomial of weights": (lambda: (ROW * 7).multinomial(num_samples=1)[0], ROW_LAW),
    "Categorical": (lambda: torch.distributions.Categorical(probs=ROW).sample(), ROW_LAW),
    "two at once": (
        lambda: torch.multinomial(torch.tensor([1.0, 3.0]), 2, replacement=True),
        {(0, 0): F(1, 16), (0, 1): F(3, 16), (1, 0): F(3, 16), (1, 1): F(9, 16)},
    ),
    "without replacement": (
        lambda: torch.multinomial(ROW, 3)[:2],
        {
            (0, 1): F(1, 2) * F(1, 4),
            (0, 2): F(1, 2) * F(3, 4),
            (1, 0): F(1, 8) * F(4, 7),
            (1, 2): F(1, 8) * F(3, 7),
            (2, 0): F(3, 8) * F(4, 5),
            (2, 1): F(3, 8) * F(1, 5),
        },
    ),
    "a row each": (
        lambda: torch.multinomial(torch.stack([ROW, torch.tensor([0.0, 0.0, 1.0])]), 1),
        {((x,), (2,)): mass for x, mass in ROW_LAW.items()},
    ),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_have_their_law(name):
    program, expected = DRAWS[name]
    assert law(program) == expected


# What follows a draw: each program asks in its own way whether the first of three uniforms is below 1/4.


def written_into_a_row():
    table = torch.zeros(2, 3)
    table[1].uniform_()
    return table[1, 0] < 0.25


def written_by_copy():
    table = torch.ones(2, 3)
    table.copy_(torch.rand(3).expand(2, 3))
    return bool(table[0, 0] < 0.25) and bool(table[1, 0] < 0.25)  # one draw, in two places


def written_by_index():
    table = torch.ones(2, 3)
    table[torch.tensor([1, 0]), 0] = torch.rand(2)
    return table[1, 0] < 0.25


def overwritten():
    linear = torch.nn.Linear(2, 2)  # draws its weights, which nobody uses
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 0.25]]))
        linear.bias.zero_()
        threshold = linear(torch.ones(2))[1]
    return torch.rand(()) < threshold


def columns_masked():
    u = torch.rand(2, 2)
    u.masked_fill_(torch.tensor([False, True]), 1.0)  # broadcast along rows
    return u[1, 0] < 0.25 and not u[0, 1] < 0.25


def another_width():
    table = torch.zeros(2, 3, dtype=torch.float64)
    table[0] = torch.rand(3)
    return table[0, 1] < 0.25


def seen_by_numpy():
    u = torch.rand(2)
    u.numpy()[0] = 0.0
    return u[0] < 0.25 and u[1] < 0.25


def replaced_in_place():
    u = torch.rand(3)
    u[1:] = 0.0
    u.masked_fill_(torch.tensor([False, True, False]), 1.0)
    u[2].fill_(1.0)
    return (u < 0.25).sum() == 1


FOLLOWED = {
    "item": lambda: torch.rand(3)[0].item() < 0.25,
    "item against a tensor": lambda: torch.rand(3)[0].item() < torch.tensor(0.25),
    "tolist": lambda: torch.rand(3).tolist()[0] < 0.25,
    "numpy": lambda: (torch.rand(3).numpy() < 0.25)[0],
    "reshape": lambda: torch.rand(3, 1).T.reshape(-1)[0] < 0.25,
    "unbind": lambda: next(iter(torch.rand(3))) < 0.25,
    "clone": lambda: torch.rand(3).clone().detach()[0] < 0.25,
    "cat": lambda: torch.cat([torch.zeros(2), torch.rand(3)])[2] < 0.25,
    "stack": lambda: torch.stack([torch.rand(3), torch.rand(3)])[1, 0] < 0.25,
    "gather": lambda: torch.rand(1, 3).gather(1, torch.tensor([[0]])).squeeze() < 0.25,
    "by a list": lambda: torch.rand(3)[[2, 0]][1] < 0.25,
    "by a mask": lambda: torch.rand(3)[torch.tensor([True, False, True])][0] < 0.25,
    "where": lambda: torch.where(torch.tensor([True, False, True]), torch.rand(3), 0.0)[0] < 0.25,
    "masked_fill": lambda: torch.rand(3).masked_fill(torch.tensor([False, True, True]), 1.0)[0] < 0.25,
    "float64": lambda: torch.rand(3).to(torch.float64)[0] < 0.25,
    "double": lambda: torch.rand(3).double().cpu()[0] < 0.25,
    "flipped": lambda: 1 - torch.rand(3)[0] > 0.75,
    "scaled": lambda: (torch.rand(3) * 2 - 1)[0] < -0.5,
    "times a tensor": lambda: (torch.rand(3) * torch.tensor([4.0, 1, 1]))[0] < 1,
    "in place": lambda: torch.rand(3).mul_(4).add_(1)[0] < 2,
    "divided": lambda: torch.rand(3)[0] / torch.tensor(0.5) <= 0.5,
    "long": lambda: torch.rand(3)[0].lt(torch.tensor(0.25)).long() == 1,
    "log space": lambda: torch.rand(3).log()[0] < torch.tensor(0.25, dtype=torch.float64).log(),
    "of one": lambda: torch.rand(()).clone() < 0.25,
    "of one, where": lambda: torch.where(torch.tensor(True), torch.rand(()), 0.0) < 0.25,
    "expanded beside": lambda: torch.broadcast_tensors(torch.rand(1), torch.full((3,), 0.25))[0][2] < 0.25,
    "zeros of its shape": lambda: torch.rand(3)[0] < torch.zeros_like(torch.rand(3))[0] + 0.25,
    "whole numbers": lambda: (torch.rand(3) * 4).long()[0] == 0,
    "floor": lambda: (torch.rand(3) * 4).floor()[0] == 0,
    "inverse CDF": lambda: torch.searchsorted(torch.tensor([0.25, 1.0]), torch.rand(3))[0] == 0,
    "bucketize": lambda: torch.bucketize(torch.rand(3), torch.tensor([0.25, 1.0]))[0] == 0,
    "inverse CDF, by keyword": lambda: (
        torch.searchsorted(torch.tensor([0.25, 1.0]), input=torch.rand(3), out_int32=True)[0] == 0
    ),
    "bucketize, by keyword": lambda: (
        torch.bucketize(torch.rand(3), boundaries=torch.tensor([0.25, 1.0]))[0] == 0
    ),
    "by keyword": lambda: torch.lt(input=torch.rand(3), other=torch.tensor(0.25))[0],
    "a scalar in float32": lambda: torch.rand(3)[0] < 0.25 + 1e-12,
    "columns masked": columns_masked,
    "another width": another_width,
    "seen by NumPy": seen_by_numpy,
    "written into a row": written_into_a_row,
    "written by copy": written_by_copy,
    "written by index": written_by_index,
    "replaced in place": replaced_in_place,
    "weights overwritten": overwritten,
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_draw_is_followed(name):
    assert law(lambda: bool(FOLLOWED[name]())) == {True: F(1, 4), False: F(3, 4)}


@pytest.mark.parametrize("options", [{}, {"right": True}, {"side": "right"}, {"side": "left"}], ids=str)
def test_a_number_among_the_draws_ties_with_a_boundary_as_in_torch(options):
    def searched():
        u = torch.rand(2)
        u[1] = 0.25
        return torch.searchsorted(torch.tensor([0.25, 1.0]), u, **options)

    second = int(torch.searchsorted(torch.tensor([0.25, 1.0]), torch.tensor(0.25), **options))
    assert law(searched) == {(0, second): F(1, 4), (1, second): F(3, 4)}


def test_a_draw_remembers_what_it_was_asked():
    def reused():
        u = torch.rand(2)
        return u[0] < 0.5, u.clone()[0] < 0.75

    assert law(reused) == {(True, True): F(1, 2), (False, True): F(1, 4), (False, False): F(1, 4)}


# Races


def buffer_raced():
    q = torch.empty_like(ROW)
    q.exponential_()
    return ROW.clone().div_(q).argmax(dim=-1)


def buffer_raced_in_rows():
    q = torch.empty(2, 3)
    q.exponential_()
    q[0].exponential_(generator=torch.Generator().manual_seed(7))  # a request with a seed of its own
    return (torch.stack([ROW, OTHER]) / q).argmax(dim=-1, keepdim=True)[0]


def greedy_among_random():
    noise = torch.ones(2, 3)
    noise[1].exponential_()
    return (torch.stack([OTHER, ROW]) / noise).argmax(dim=-1)


def many_tokens():
    row = torch.zeros(32_000)
    row[7], row[31_999] = 0.25, 0.75
    return (row / torch.empty_like(row).exponential_()).argmax()


def gumbel():
    noise = -torch.log(-torch.log(torch.rand(3)))
    return torch.argmax(ROW.log() + noise)


def gumbel_at_a_temperature():
    noise = -torch.empty_like(ROW).exponential_().log()
    return ((ROW.log() / 2 + noise) / 0.7).argmax(-1)


def gumbel_masked():
    scores = ROW.log() - torch.empty_like(ROW).exponential_().log()
    scores[1] = -torch.inf
    return scores.argmax()


RACES = {
    "division": (lambda: (ROW / torch.empty(3).exponential_(1)).argmax(), ROW_LAW),
    "arrival times": (lambda: torch.argmin(torch.empty(3).exponential_() / ROW), ROW_LAW),
    "log of a uniform": (lambda: (torch.rand(3).log() / ROW).argmax(), ROW_LAW),
    "a buffer": (buffer_raced, ROW_LAW),
    "rows of a buffer": (buffer_raced_in_rows, {(x,): mass for x, mass in ROW_LAW.items()}),
    "rates": (lambda: (ROW / torch.empty(3).exponential_(5)).argmax(), ROW_LAW),
    "Gumbel": (gumbel, ROW_LAW),
    "Gumbel at a temperature": (gumbel_at_a_temperature, None),
    "Gumbel, masked": (gumbel_masked, {0: F(4, 7), 2: F(3, 7)}),
    "by keyword": (
        lambda: (ROW[None] / torch.empty(1, 3).exponential_(lambd=2.0)).argmax(axis=-1, keepdim=True)[0, 0],
        ROW_LAW,
    ),
    "a greedy row among random ones": (greedy_among_random, {(1, x): mass for x, mass in ROW_LAW.items()}),
    "arrival times with a zero": (
        lambda: torch.argmin(torch.empty(3).exponential_() / torch.tensor([1.0, 0.0, 3.0])),
        {0: F(1, 4), 2: F(3, 4)},
    ),
    "many tokens": (many_tokens, {7: F(1, 4), 31_999: F(3, 4)}),
    "a token without mass": (
        lambda: (torch.tensor([1.0, 0.0, 3.0]) / torch.empty(3).exponential_()).argmax(),
        {0: F(1, 4), 2: F(3, 4)},
    ),
}


@pytest.mark.parametrize("name", RACES)
def test_a_race_is_won_in_proportion(name):
    program, expected = RACES[name]
    if expected is None:  # the square roots of 1/2, 1/8 and 3/8, in float32
        roots = np.sqrt(np.array([4, 1, 3]))
        expected = {x: F(float(root)) for x, root in enumerate(roots / roots.sum())}
    found = law(program)
    assert sum(abs(found.get(x, 0) - mass) for x, mass in expected.items()) < 1e-6


# One of the races seeds a row itself, so torch draws the same row every time.
PROGRAMS = {**{n: p for n, (p, _) in DRAWS.items()}, **FOLLOWED, **{n: p for n, (p, _) in RACES.items()}}


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "rows of a buffer"])
def test_the_law_is_that_of_the_program_torch_runs(name):
    """What was enumerated is put beside what torch draws when nothing stands between them."""
    program = drawing(PROGRAMS[name])
    rng, n = np.random.default_rng(1), 1000
    counts = {}
    for _ in range(n):
        outcome = program(rng)
        counts[outcome] = counts.get(outcome, 0) + 1
    p_value, _ = g_test(counts, exact.law(program))
    assert p_value >= ALPHA / len(PROGRAMS), f"{name}: n = {n}, p = {p_value}"


# What is refused


def swallows():
    try:
        return torch.rand(1).exp() < 2
    except TypeError:
        return True


def raced_twice():
    noise = torch.empty(3).exponential_()
    return (ROW / noise).argmax(), (OTHER / noise).argmax()


def raced_with_itself():
    noise = torch.empty(3).exponential_()
    return (torch.stack([ROW[0] / noise[0], ROW[1] / noise[0]])).argmax()


def compared_and_raced():
    u = torch.rand(3)
    return bool(u[0] < 0.5), (ROW.log() - (-u.log()).log()).argmax()


def below(u: torch.Tensor, p: torch.Tensor) -> bool:
    return bool(u < p)


with warnings.catch_warnings(action="ignore"):  # deprecated, and still in engines
    SCRIPTED = torch.jit.script(below)


def drawn_after_numpy():
    buffer = torch.empty(3)
    seen = buffer.numpy()
    buffer.uniform_()
    return seen[0] < 0.25


def a_cloned_generator():
    g, h = torch.Generator().manual_seed(3), torch.Generator()
    first = bool(torch.rand(1, generator=g) < 0.5)
    h.set_state(g.get_state())
    return first, bool(torch.rand(1, generator=h) < 0.5), bool(torch.rand(1, generator=g) < 0.5)


def nan_race():
    scores = torch.ones(3) / torch.empty(3).exponential_()
    scores[1] = torch.nan
    return scores.argmax()


def seeds_itself():
    torch.manual_seed(0)
    return torch.rand(1) < 0.5


def forks():
    with torch.random.fork_rng():
        a = bool(torch.rand(1) < 0.5)
    return a, bool(torch.rand(1) < 0.5)


def one_seed_twice():
    return [bool(torch.rand(1, generator=torch.Generator().manual_seed(3)) < 0.5) for _ in range(2)]


def reseeds():
    g = torch.Generator().manual_seed(3)
    a = bool(torch.rand(1, generator=g) < 0.5)
    g.manual_seed(3)
    return a, bool(torch.rand(1, generator=g) < 0.5)


REFUSED = {
    "exp": (lambda: torch.rand(1).exp() < 2, "torch.exp"),
    "clamp": (lambda: torch.rand(1).clamp(min=1e-9) < 0.5, "torch.clamp"),
    "clamp_": (lambda: torch.rand(1).clamp_(0.1) < 0.5, "torch.clamp_"),
    "sort": (lambda: torch.rand(3).sort().indices[0], "torch.sort"),
    "sum": (lambda: torch.rand(3).sum() < 1, "torch.sum"),
    "argmax of uniforms": (lambda: torch.rand(3).argmax(), "argmax of uniforms"),
    "float": (lambda: float(torch.rand(1)) < 0.5, "__float__"),
    "bool": (lambda: bool(torch.rand(1)), "__bool__"),
    "two uniforms": (lambda: torch.rand(1) < torch.rand(1), "compared with each other"),
    "product of two": (lambda: torch.rand(1) * torch.rand(1) < 0.5, "two uniforms"),
    "out": (lambda: torch.add(torch.rand(1), 1, out=torch.empty(1)) < 1.5, "out="),
    "out of a coin": (lambda: torch.bernoulli(torch.tensor([0.25]), out=torch.ones(1)), "torch.bernoulli"),
    "sorter": (
        lambda: torch.searchsorted(torch.tensor([1, 0.25]), torch.rand(1), sorter=torch.tensor([1, 0])),
        "with a sorter",
    ),
    "alpha": (lambda: torch.rand(1).add(torch.ones(1), alpha=2) < 1.5, "alpha"),
    "bool of it": (lambda: torch.rand(1).to(torch.bool), "torch.bool"),
    "another dtype's view": (lambda: torch.rand(1).view(torch.int32) < 5, "another dtype"),
    "a row with a draw": (lambda: torch.multinomial(torch.rand(3), 1), "holds a draw"),
    "randn": (lambda: torch.randn(1) < 0, "torch.randn"),
    "normal_": (lambda: torch.empty(1).normal_() < 0, "torch.normal_"),
    "dropout": (lambda: torch.nn.functional.dropout(torch.ones(3)).sum() > 1, "where it is not seen"),
    "gumbel_softmax": (
        lambda: torch.nn.functional.gumbel_softmax(ROW.log(), hard=True),
        "where it is not seen",
    ),
    "another device": (lambda: torch.rand(1, device="meta") < 0.5, "device meta"),
    "log of a shifted uniform": (lambda: (torch.rand(3) + 1e-10).log().argmax(), "scaled or shifted"),
    "noise as a number": (lambda: torch.empty(1).exponential_() < 1, "otherwise than in a race"),
    "loser": (lambda: (ROW / torch.empty(3).exponential_()).argmin(), "loser"),
    "bernoulli of a draw": (lambda: torch.bernoulli(torch.rand(1)), "bernoulli of a draw"),
    "half precision": (lambda: torch.rand(1, dtype=torch.bfloat16) < 0.3, "far from ideal"),
    "turned to half precision": (lambda: torch.rand(1).bfloat16() < 0.3, "bfloat16"),
    "TorchScript": (lambda: SCRIPTED(torch.rand(1), torch.tensor(0.25)), "below the functions of torch"),
    "vmap": (lambda: torch.vmap(lambda u: u < 0.25)(torch.rand(2)), "below the functions of torch"),
    "draws in vmap": (
        lambda: torch.vmap(lambda p: torch.rand(()) < p, randomness="different")(torch.ones(2)),
        "inside vmap",
    ),
    "memory of NumPy": (
        lambda: torch.from_numpy(np.zeros(2, dtype=np.float32)).uniform_()[0] < 0.25,
        "NumPy sees",
    ),
    "memory NumPy will see": (drawn_after_numpy, "NumPy sees"),
    "a cloned generator": (a_cloned_generator, "seed was used again"),
    "a race with NaN": (lambda: nan_race(), "otherwise than in a race"),
    "NumPy's generator": (lambda: np.random.rand() < 0.5, "Python's or NumPy's own generator"),
    "Python's generator": (lambda: random.random() < 0.5, "Python's or NumPy's own generator"),
    "the mode's own trouble": (lambda: torch.add(torch.rand(1), 2, torch.ones(1)), "alpha"),
    "raced twice": (raced_twice, "raced again"),
    "raced with itself": (raced_with_itself, "raced again"),
    "compared and raced": (compared_and_raced, "had been compared"),
    "seeds itself": (seeds_itself, "seeds torch's generator"),
    "random weights": (lambda: torch.nn.Linear(2, 2)(torch.ones(2)).argmax(), "torch.linear"),
    "forks": (forks, "seeds torch's generator"),
    "one seed twice": (one_seed_twice, "seed was used again"),
    "reseeds": (reseeds, "seed was used again"),
    "swallows the refusal": (swallows, "torch.exp"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_followed_is_refused_by_name(name):
    program, said = REFUSED[name]
    with pytest.raises(Inexact, match=said.replace("(", r"\(")):
        law(program)


def test_what_torch_refuses_is_torchs_own_error():
    """A program may rely on it."""
    wrong = [
        lambda: torch.multinomial(torch.zeros(3), 1),
        lambda: torch.multinomial(torch.tensor([1.0, torch.nan]), 1),
        lambda: torch.multinomial(torch.ones(3, dtype=torch.long), 1),
        lambda: torch.bernoulli(torch.tensor(1.5)),
        lambda: torch.empty(1).uniform_(1, 0),
        lambda: torch.randint(3, 3, (1,)),
    ]
    for program in wrong:

        def caught(program=program):
            try:
                program()
            except RuntimeError:
                return "caught"

        assert law(caught) == {"caught": 1}
        assert drawing(caught)(np.random.default_rng(0)) == "caught"


def test_a_buffer_of_the_programs_own_gets_its_numbers_back():
    buffer = torch.tensor([0.25, 0.0])

    def persistent():
        buffer[1] = torch.rand(())
        return bool(buffer[1] < buffer[0])

    for _ in range(2):
        assert law(persistent) == {True: F(1, 4), False: F(3, 4)}
    assert buffer.tolist() == [0.25, 0.0]


def test_a_number_is_rounded_as_torch_rounds_it():
    """0.1 in float32 is more than 0.1: what is stored and what is compared are one number."""

    def program():
        x = torch.full((2,), 0.1)
        x[0].uniform_()
        return bool((x > 0.1)[1]), bool((x > torch.tensor(0.1, dtype=torch.float64))[1])

    assert law(program) == {program(): 1}


def test_a_draw_is_no_outcome():
    with pytest.raises(TypeError, match="not hashable"):
        law(lambda: torch.rand(2))


def test_a_large_vocabulary_is_refused_with_what_to_do():
    with pytest.raises(TooLarge, match=r"49152 .* at most 1000 .*vocab_size=3.* top_k"):
        law(lambda: torch.multinomial(torch.ones(49152), 1))


def test_a_large_vocabulary_with_few_tokens_left_is_followed():
    def program():
        logits = torch.zeros(49152)
        logits[[7, 49151]] = 5.0
        kept = torch.where(logits >= logits.topk(2).values[-1], logits, -torch.inf)
        return torch.multinomial(kept.softmax(-1), 1)

    assert law(program) == {(7,): F(1, 2), (49151,): F(1, 2)}


def test_many_paths_stop_at_once():
    with pytest.raises(TooLarge, match="more than 100 paths"):
        law(lambda: torch.rand(40) < 0.5, max_paths=100)


def test_the_callers_generator_is_left_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    law(lambda: torch.rand(2) < 0.5)
    drawing(lambda: torch.rand(2))(np.random.default_rng(0))
    assert torch.equal(torch.rand(3), expected)


# Two programs


def test_compare_tells_programs_apart():
    same = compare(lambda: torch.multinomial(ROW, 1), lambda: torch.multinomial(2 * ROW, 1), tolerance=0)
    assert (same.equal, same.total_variation) == (True, 0)
    found = compare(lambda: torch.multinomial(ROW, 1), lambda: torch.multinomial(OTHER, 1))
    assert (found.equal, found.total_variation) == (False, F(3, 8))
    assert found.worst == ((1,), F(1, 8), F(1, 2))


def draft_noise_reused():
    """vllm-project/vllm#54282: the replacement is raced with the noise that drew the draft."""
    p, q, noise = (
        torch.tensor([0.5, 0.45, 0.05]),
        torch.tensor([0.05, 0.15, 0.8]),
        torch.empty(3).exponential_(),
    )
    x = (q / noise).argmax()
    if torch.rand(()) < p[x] / q[x]:
        return x
    return ((p - q).clamp(min=0) / noise).argmax()


def test_reused_noise_is_sampled_and_found():
    plain = drawing(lambda: torch.multinomial(torch.tensor([0.5, 0.45, 0.05]), 1)[0])
    found = same_law(plain, drawing(draft_noise_reused), draws=8000, tolerance=1e-6)
    assert (found.verdict, found.method) == ("not equal", "sampled")
    assert "raced again" in found.reason


# Verifiers


def in_one_go(draft_tokens, draft_dists, target_dists):
    k = len(draft_tokens)
    at = torch.arange(k)
    ratios = target_dists[at, draft_tokens] / draft_dists[at, draft_tokens]
    n = int((torch.rand_like(ratios) < ratios).cumprod(0).sum())
    row = target_dists[n] if n == k else (target_dists[n] - draft_dists[n]).clamp(min=0)
    return torch.cat([draft_tokens[:n], torch.multinomial(row, 1)])


def with_a_generator(draft_tokens, draft_dists, target_dists, generator):
    for i, x in enumerate(draft_tokens):
        if not torch.rand((), generator=generator) < target_dists[i, x] / draft_dists[i, x]:
            rest = torch.relu(target_dists[i] - draft_dists[i])
            noise = torch.empty_like(rest).exponential_(generator=generator)
            return [*draft_tokens[:i], (rest / noise).argmax()]
    return [*draft_tokens, torch.multinomial(target_dists[-1], 1, generator=generator)[0]]


def coin_drives_the_replacement(draft_tokens, draft_dists, target_dists):
    """vllm-project/vllm-ascend#16370: the uniform that failed the test draws the replacement."""
    for i, x in enumerate(draft_tokens):
        u = torch.rand(())
        if not u < target_dists[i, x] / draft_dists[i, x]:
            rest = (target_dists[i] - draft_dists[i]).clamp(min=0)
            cumulative = rest.cumsum(0) / rest.sum()
            return [*draft_tokens[:i], (cumulative < u).sum()]
    return [*draft_tokens, torch.multinomial(target_dists[-1], 1)[0]]


def accepts_at_zero(draft_tokens, draft_dists, target_dists):
    k = len(draft_tokens)
    ratios = (target_dists[:k] / draft_dists).gather(1, draft_tokens[:, None])[:, 0]
    n = int((torch.rand(k) <= ratios).cumprod(0).sum())
    row = target_dists[n] if n == k else (target_dists[n] - draft_dists[n]).clamp(min=0)
    return torch.cat([draft_tokens[:n], torch.multinomial(row, 1)])


@pytest.mark.parametrize("verifier", [in_one_go, with_a_generator])
def test_right_verifiers_are_certified(verifier):
    found = certify(as_verifier(verifier), tolerance=1e-6)
    assert (found.verdict, found.method) == ("exact", "enumerated"), str(found)
    assert found.subject == f"as_verifier({verifier.__name__})"


def test_a_coin_used_twice_is_refuted():
    found = certify(as_verifier(coin_drives_the_replacement), tolerance=1e-6)
    assert (found.verdict, found.method) == ("not exact", "enumerated")
    assert found.total_variation > F(1, 100)


def test_a_closed_coin_is_refuted_by_a_coin_of_zero():
    found = certify(as_verifier(accepts_at_zero), tolerance=1e-6)
    assert found.verdict == "not exact"
    assert "every coin exactly 0.0" in found.witness.how


def test_float64_rows_meet_the_strict_tolerance():
    world = World("dense", *DENSE, k=2)
    found = certify(as_verifier(in_one_go, dtype=torch.float64), worlds=[world])
    assert found.verdict == "exact"
    assert found.total_variation < F(1, 10**12)


def test_a_verifier_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="takes neither three nor four arguments"):
        as_verifier(lambda draft_tokens: draft_tokens)
