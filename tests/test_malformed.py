"""Bad input is refused in one clear line: thousands of malformed inputs, generated (`tests/malformed.py`)."""

import signal
import time
import warnings
from fractions import Fraction as F
from itertools import pairwise

import malformed
import malformed_arguments
import malformed_lines
import numpy as np
import pytest
from malformed import Case, message
from malformed_arguments import Constant

from specdecode import generate_speculative, random_markov
from specdecode.models import MarkovModel


def refused(cases):
    """All cases at once: one test a case would cost more than the cases do."""
    wrong, tried = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nor is anything said beside the message
        for case in cases:
            tried += 1
            try:
                message(case)
            except AssertionError as error:
                wrong.append(str(error))
    assert not wrong, f"{len(wrong)} of {tried}:\n" + "\n".join(wrong[:20])
    return tried


def test_every_function_refuses_every_wrong_argument():
    assert refused(malformed_arguments.cases()) > 4000


def test_the_command_line_refuses_what_cannot_be():
    assert refused(malformed_lines.command_lines()) > 500


def test_files_without_a_function_are_told(tmp_path):
    assert refused(malformed_lines.files(tmp_path)) > 80


def test_servers_that_answer_nonsense_are_told():
    pytest.importorskip("httpx2")
    import malformed_servers

    assert refused(malformed_servers.cases()) > 200


def test_tensors_that_hold_no_numbers_are_told():
    torch = pytest.importorskip("torch")
    from specdecode.adapters.pytorch import as_verifier, drawing
    from specdecode.checks import as_row

    row = torch.tensor([0.5, 0.5, 0.0])
    rows = [row.to("meta"), row.to_sparse(), row > 0, row.to(torch.complex64), row[:, None], row / 2, -row]
    cases = [Case("rows", str(row), lambda row=row: as_row(row, "row", 3), ("row",)) for row in rows]
    for wrong in (None, 3, "f"):
        cases += [
            Case("torch", repr(wrong), lambda f=f, wrong=wrong: f(wrong)) for f in (as_verifier, drawing)
        ]
    assert refused(cases) == 13


# The checker is shown to fail.


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (lambda: 3, "is accepted: 3"),
        (lambda: 1 / 0, "raises ZeroDivisionError"),
        (lambda: int("x\ny"), "x"),
        (lambda: (_ for _ in ()).throw(ValueError("two\nlines; want one")), "two"),
        (lambda: (_ for _ in ()).throw(ValueError("it is wrong")), "it is wrong"),
        (lambda: (_ for _ in ()).throw(ValueError("k is 3; want less")), "k is 3"),
        (lambda: (_ for _ in ()).throw(ValueError("n is 4; want less")), "n is 4"),
    ],
)
def test_what_is_not_one_clear_line_is_found(run, says):
    with pytest.raises(AssertionError, match=says):
        message(Case("", "case", run, ("n is",), ("3",)))
    assert message(Case("", "case", lambda: random_markov(0, 1), ("vocab_size",), ("0",)))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="an alarm of Unix")
def test_what_hangs_is_found(monkeypatch):
    monkeypatch.setattr(malformed, "SECONDS", 0.05)
    with pytest.raises(AssertionError, match="does not end"), malformed.limited(5):
        message(Case("", "sleeper", lambda: time.sleep(60)))


def test_nothing_impossible_comes_out_of_extreme_uniforms():
    """Coins of exactly 0 and just below 1 are right, and wake no token with p = 0."""
    target = MarkovModel([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [0.5, 0.0, 0.5]])
    draft = MarkovModel([[1 / 3] * 3] * 3)
    for u in (0.0, 1 - 2**-53, 0.5, np.float64(0.25), F(1, 3)):
        text = [0, *generate_speculative(target, draft, [0], 20, 3, Constant(u)).tokens]
        assert all(target.rows[a][b] > 0 for a, b in pairwise(text))
