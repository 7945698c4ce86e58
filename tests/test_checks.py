"""What may enter, and the one line it costs to be refused."""

from fractions import Fraction as F

import numpy as np
import pytest

from specdecode.checks import (
    LONGEST,
    as_count,
    as_draft_length,
    as_drafted,
    as_level,
    as_number,
    as_row,
    as_rows,
    as_stop,
    as_token,
    as_tokens,
    shown,
)


def one_line(error):
    text = str(error.value)
    assert "\n" not in text
    assert "want" in text
    return text


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ([0.5, 0.6, -0.1], "entry 2 is -0.1"),
        ([0.5, np.nan, 0.5], "entry 1 is nan"),
        ([np.inf, 0.5], "entry 0 is inf"),
        ([np.inf, -np.inf], "entry 0 is inf"),
        ([0.5, 0.4], "sums to 0.9"),
        ([0.0, 0.0], "sums to 0.0"),
        ([[0.5, 0.5]], r"shape \(1, 2\)"),
        (0.5, r"shape \(\)"),
        ([], "sums to 0"),
        ([F(1, 2), F(1, 3)], "sums to 5/6; want 1 exactly"),
        ([F(3, 2), F(-1, 2)], "entry 1 is -1/2"),
        (["a", "b"], "entries of type"),
        ([0.5, 0.5 + 1e-9], "sums to 1.000000001"),
    ],
)
def test_what_is_not_a_row_is_refused_with_its_number(row, says):
    with pytest.raises(ValueError, match=says) as error:
        as_row(row, "target row")
    assert one_line(error).startswith("target row: ")


def test_a_row_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match=r"shape \(2,\); want \(3,\)"):
        as_row([0.5, 0.5], "draft row", vocab_size=3)


def test_a_stack_names_the_row():
    with pytest.raises(ValueError, match="row 1, entry 0 is nan"):
        as_rows([[1.0, 0.0], [np.nan, 1.0]], "rows", 2, 2)
    with pytest.raises(ValueError, match=r"row 1 sums to 0\.5"):
        as_rows([[1.0, 0.0], [0.25, 0.25]], "rows", 2, 2)
    assert as_rows(np.empty((0, 5)), "rows", 0, 5).shape == (0, 5)


def test_a_good_float64_or_rational_row_passes_untouched():
    for row in (np.array([0.1, 0.9]), np.array([F(1, 3), F(2, 3)], dtype=object)):
        row.flags.writeable = False
        assert as_row(row, "row") is row


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_narrow_row_is_widened_and_divided_by_its_sum(dtype):
    row = np.random.default_rng(0).dirichlet(np.ones(300)).astype(dtype)
    wide = as_row(row, "row")
    assert wide.dtype == np.float64
    assert abs(wide.sum() - 1) < 1e-15
    assert abs(row.astype(float).sum() - 1) > 1e-12, "this row shows nothing: its sum was 1 already"


def test_a_one_hot_row_of_integers_is_a_row():
    assert as_row(np.array([0, 1], dtype=np.int8), "row").tolist() == [0.0, 1.0]


@pytest.mark.parametrize("value", [-1, 3, 1.0, "1", None])
def test_token_ids_are_integers_in_the_vocabulary(value):
    with pytest.raises(ValueError, match="want a token id from 0 to 2") as error:
        as_tokens([0, value], "prefix", 3)
    assert "prefix[1]" in one_line(error)
    with pytest.raises(ValueError, match="want a token id"):
        as_stop([value] if value is not None else ["x"], 3)


def test_token_ids_become_python_ints():
    assert type(as_token(np.int32(2), "token", 3)) is int
    assert as_stop(np.int64(1), 3) == {1}
    assert as_stop({0, 2}, 3) == {0, 2}


def test_a_drafted_token_must_be_possible():
    with pytest.raises(ValueError, match="q = 0"):
        as_drafted(1, np.array([1.0, 0.0]), "draft_tokens[0]")


@pytest.mark.parametrize("value", [0, -3, 2.0, "4", None, True])
def test_counts_are_whole_numbers(value):
    with pytest.raises(ValueError, match="want a whole number, 1 or more"):
        as_count(value, "k", least=1)


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("limits", "inside", "outside", "want"),
    [
        ((0, 1), (0, F(1, 2), 1), (-1e-9, F(3, 2), NAN, INF, None, "half"), "a number from 0 to 1"),
        ((0,), (0, 1e300), (-1, NAN, INF, [2]), "a finite number, 0 or more"),
        ((0, INF), (0, INF), (-1, NAN, -INF), "a number, 0 or more"),
    ],
)
def test_numbers_lie_in_their_range(limits, inside, outside, want):
    for value in inside:
        assert as_number(value, "weight", *limits) is value
    for value in outside:
        with pytest.raises(ValueError, match=f"; want {want}$") as error:
            as_number(value, "weight", *limits)
        assert one_line(error).startswith(f"weight is {value}; ")


@pytest.mark.parametrize(
    ("ends", "inside", "outside", "want"),
    [
        ({"open_below": True}, (1e-9, 1), (0, 2), "a number above 0, and at most 1"),
        ({"open_above": True}, (0, 0.999), (1, -1), "a number from 0, and below 1"),
        ({"open_below": True, "open_above": True}, (1e-9,), (0, 1), "a number between 0 and 1"),
    ],
)
def test_an_open_end_is_no_part_of_the_range(ends, inside, outside, want):
    assert [as_number(value, "x", 0, 1, **ends) for value in inside] == list(inside)
    for value in outside:
        with pytest.raises(ValueError, match=f"x is {value}; want {want}"):
            as_number(value, "x", 0, 1, **ends)
    with pytest.raises(ValueError, match="want a finite number above 0"):
        as_number(0, "x", 0, open_below=True)


@pytest.mark.parametrize("alpha", [0, 1, -0.1, NAN, "5 %"])
def test_a_level_lies_strictly_between_0_and_1(alpha):
    assert as_level(0.05) == 0.05
    with pytest.raises(ValueError, match=r"alpha is .*; want a number between 0 and 1"):
        as_level(alpha)


def test_a_masked_row_is_a_row_where_nothing_is_masked():
    assert as_row(np.ma.array([0.5, 0.5]), "row").tolist() == [0.5, 0.5]
    half = np.ma.array([0.5, 0.5, 0.0], mask=[False, False, True])
    for stack in ([half, half], np.ma.array([half, half]), (half.data, half)):
        with pytest.raises(ValueError, match="entry 2 is masked"):
            as_rows(stack, "rows", 2, 3)


def test_tensors_enter_as_their_numbers():
    torch = pytest.importorskip("torch")
    row = torch.tensor([0.5, 0.25, 0.25])
    for tensor in (row, row.double(), row.half(), row.bfloat16(), row.clone().requires_grad_(), row[None][0]):
        assert as_row(tensor, "row", 3).tolist() == [0.5, 0.25, 0.25]
        assert as_row(tensor, "row", 3).dtype == np.float64
        assert as_rows([tensor, tensor], "rows", 2, 3).tolist() == [[0.5, 0.25, 0.25]] * 2
        assert as_rows(torch.stack([tensor, tensor]), "rows", 2, 3).tolist() == [[0.5, 0.25, 0.25]] * 2
    assert as_row(torch.tensor([0, 1, 0]), "row").tolist() == [0, 1, 0]


def test_a_tensor_of_two_bytes_may_miss_1_by_its_rounding_and_is_divided_by_its_sum():
    torch = pytest.importorskip("torch")
    row = torch.full((3,), 1 / 3).bfloat16()
    assert abs(float(row.double().sum()) - 1) > 1e-3, "this row shows nothing: its sum was 1 already"
    for wide in (as_row(row, "row"), as_rows([row, row], "rows", 2, 3)[1]):
        assert abs(wide.sum() - 1) < 1e-15
    with pytest.raises(ValueError, match="sums to"):
        as_row(row.float(), "row")


@pytest.mark.parametrize(
    "value", [10**400, 10**5000, np.eye(30), "x" * 1000, "two\nlines"], ids=lambda value: type(value).__name__
)
def test_any_value_is_shown_on_one_line(value):
    assert len(shown(value)) <= 80
    assert "\n" not in shown(value)


def test_a_draft_has_a_longest_length():
    assert as_draft_length(LONGEST) == LONGEST
    with pytest.raises(ValueError, match="k is 1000000000; want a whole number from 1 to 10000"):
        as_draft_length(10**9)
    with pytest.raises(ValueError, match="k is 0; want a whole number, 1 or more"):
        as_draft_length(0)
