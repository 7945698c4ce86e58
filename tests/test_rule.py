"""The rule in its three number systems."""

from fractions import Fraction as F

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from specdecode.rule import acceptance, excess, overlap, residual, total_variation


@st.composite
def rational_pairs(draw):
    size = draw(st.integers(2, 7))
    row = st.lists(st.integers(0, 12), min_size=size, max_size=size).filter(any)
    p, q = (np.array([F(w) for w in draw(row)], dtype=object) for _ in range(2))
    return p / p.sum(), q / q.sum()


@st.composite
def float_pairs(draw):
    size = draw(st.integers(1, 9))
    entry = st.floats(0, 1, allow_subnormal=True)
    row = st.lists(entry, min_size=size, max_size=size)
    return np.array(draw(row)), np.array(draw(row))


@given(float_pairs())
def test_in_floats_it_is_the_textbook_formula_bit_for_bit(pair):
    p, q = pair
    assert np.array_equal(excess(p, q), np.maximum(p - q, 0))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        textbook = np.where(q == 0, 1, np.minimum(1, p / q))
    assert np.array_equal(acceptance(p, q), textbook)


@given(rational_pairs())
def test_laws_of_the_parts_hold_exactly(pair):
    p, q = pair
    assert np.array_equal(overlap(p, q) + excess(p, q), p)
    assert np.array_equal(q * acceptance(p, q), overlap(p, q))
    assert total_variation(p, q) == 1 - overlap(p, q).sum() == total_variation(q, p)
    if total_variation(p, q):
        r = residual(p, q)
        assert r.sum() == 1
        assert not r[p <= q].any()
    else:
        with pytest.raises(ValueError, match="no entry of p exceeds q"):
            residual(p, q)


def test_fractions_stay_fractions_of_python_ints():
    p = np.array([F(1, 3), F(2, 3)], dtype=object)
    one_hot = np.array([0, 1], dtype=np.int8)
    for value in [*overlap(p, one_hot), *excess(p, one_hot), acceptance(p[1], one_hot[1])]:
        assert type(value) in (F, int)
        assert type(F(value).numerator) is int
    assert acceptance(F(1, 5), F(4, 5)) == F(1, 4)


def test_an_int_among_fractions_stays_exact():
    p, q = np.array([0, F(1)], dtype=object), np.array([1, 0], dtype=object)
    assert [type(x) for x in (*acceptance(p, q), *residual(p, q))] == [F] * 4
    assert acceptance([F(1, 2), F(1, 2)], [F(1), 0]).tolist() == [F(1, 2), F(1)]


def test_symbols_give_the_theorem_and_numbers_do_not_import_sympy():
    a, b = sympy.symbols("a b", positive=True)
    assert acceptance(a, b) == sympy.Min(a, b) / b
    assert list(excess([a], [b])) == [a - sympy.Min(a, b)]


def test_sympy_is_not_imported_for_numbers(run_python):
    done = run_python(
        "import sys, specdecode.rule as r; from fractions import Fraction as F\n"
        "r.acceptance([.5, .5], [.2, .8]); r.residual([F(1), F(0)], [F(0), F(1)])\n"
        "assert 'sympy' not in sys.modules and 'matplotlib' not in sys.modules"
    )
    assert done.returncode == 0, done.stderr


def test_other_nonsense_is_not_taken_for_symbols():
    with pytest.raises((TypeError, sympy.SympifyError)):
        overlap([object()], [object()])


@given(rational_pairs())
def test_inputs_are_not_written_to(pair):
    p, q = (row.copy() for row in pair)
    for row in (p, q):
        row.flags.writeable = False
    for function in (overlap, excess, acceptance, total_variation):
        function(p, q)
    assert all(np.array_equal(a, b) for a, b in zip((p, q), pair))


def test_a_nan_comes_out_where_it_went_in_and_is_never_drawn_from():
    p, q = [np.nan, 0.5, 0.5], [0.5, 0.25, 0.25]
    assert np.isnan(total_variation(p, q))
    assert np.isnan(total_variation(q, p))
    for rows in ((p, q), (q, p), ([np.inf, 0.0, 0.0], q)):
        with pytest.raises(ValueError, match="want p and q of finite numbers"):
            residual(*rows)


@pytest.mark.parametrize("wrong", [["a", "b"], [None, 0.5], "ab", [b"a", b"b"]])
def test_what_is_no_number_is_no_symbol(wrong):
    for function in (overlap, excess, acceptance, residual, total_variation):
        for rows in ((wrong, [0.5, 0.5]), ([0.5, 0.5], wrong)):
            with pytest.raises(TypeError, match="want numbers or SymPy expressions"):
                function(*rows)
