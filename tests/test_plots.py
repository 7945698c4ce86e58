"""Figures show what they are given: the drawn numbers, not the pixels, are looked at."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("agg")
from specdecode import plots
from specdecode.cost import expected_tokens


@pytest.fixture(autouse=True)
def style():
    with mpl.rc_context():
        plots.use_style()
        yield
    mpl.pyplot.close("all")


def test_the_style_has_the_four_colours_in_order():
    cycle = mpl.rcParams["axes.prop_cycle"].by_key()["color"]
    assert [f"#{colour.lstrip('#')}" for colour in cycle] == list(plots.COLOR.values())


def test_a_split_stacks_overlap_and_excess_to_the_target():
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.6, 0.3])
    axes = plots.draw_split(p, q)
    accepted, over, under = axes.containers
    np.testing.assert_allclose([a.get_height() + b.get_height() for a, b in zip(accepted, over)], p)
    np.testing.assert_allclose([a.get_height() + b.get_height() for a, b in zip(accepted, under)], q)


def test_a_sweep_draws_each_measurement_and_the_closed_form():
    rows = [
        {"k": k, "conditional_acceptance": alpha, "tokens_per_step": expected_tokens(alpha, k)}
        for k in (1, 4)
        for alpha in (0.2, 0.9)
    ]
    axes = plots.draw_sweep(rows)
    drawn = {
        tuple(point) for line in axes.lines if line.get_marker() != "None" for point in line.get_xydata()
    }
    assert drawn == {(row["conditional_acceptance"], row["tokens_per_step"]) for row in rows}
    tops = {line.get_ydata()[0] for line in axes.lines if len(line.get_xydata()) == 2 and line.get_lw() == 3}
    assert tops == {2, 5}


def test_rounds_show_every_token():
    axes = plots.draw_rounds([([1, 2], [1, 0]), ([0], [0, 2])], names="abc")
    assert [text.get_text() for text in axes.texts] == ["b", "c", "a", "a", "c"]


def test_a_spread_shows_every_pair():
    axes = plots.draw_spread([2, 3], [0.0, 1e-16])
    assert len(axes.collections[0].get_offsets()) == 2
    assert axes.get_yscale() == "log"


def test_bad_places_are_refused_before_anything_is_drawn(tmp_path):
    for path in (tmp_path / "a.xyz", tmp_path / "no" / "a.svg", tmp_path):
        with pytest.raises(ValueError, match="want a"):
            plots.check_path(path)
    assert plots.check_path(tmp_path / "a.png").name == "a.png"


def test_a_matrix_marks_what_is_caught_and_what_is_missed():
    axes = plots.draw_matrix({"a": {"x": True, "y": False}, "b": {"x": False, "y": False}})
    squares = [tuple(p) for line in axes.lines if line.get_marker() == "s" for p in line.get_xydata()]
    rings = [tuple(p) for line in axes.lines if line.get_marker() == "o" for p in line.get_xydata()]
    assert squares == [(0, 0)]
    assert sorted(rings) == [(0, 1), (1, 0), (1, 1)]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["caught", "missed"]


def test_a_matrix_tells_what_is_caught_elsewhere_only():
    here = {"a": {"x": True, "y": False}, "b": {"x": False, "y": False}}
    there = {"a": {"x": True, "y": True}, "b": {"x": False, "y": False}}
    axes = plots.draw_matrix(here, elsewhere=there)
    drawn = {line.get_label(): sorted(map(tuple, line.get_xydata().tolist())) for line in axes.lines}
    assert drawn == {"caught": [(0, 0)], "caught elsewhere only": [(1, 0)], "missed": [(0, 1), (1, 1)]}
    filled = {line.get_label(): line.get_markerfacecolor() != "none" for line in axes.lines}
    assert filled == {"caught": True, "caught elsewhere only": False, "missed": False}


def test_paths_are_drawn_where_they_lie():
    axes = plots.draw_paths([((0, 0.5), (0, 1), "0", "accepted"), ((0.5, 1), (0, 1), "1", "residual")])
    assert [text.get_position() for text in axes.texts] == [(0.25, 0.5), (0.75, 0.5)]


def test_resolution_and_speedup_draw_every_curve():
    axes = plots.draw_resolution([10, 100], {"a": [0.5, 0.2], "b": [0.6, 0.3]})
    assert [line.get_ydata().tolist() for line in axes.lines] == [[0.5, 0.2], [0.6, 0.3]]
    axes = plots.draw_speedup({"a": [1.0, 2.0, 1.5]})
    ring = [line for line in axes.lines if line.get_markersize() == 12]
    assert [line.get_xydata().tolist() for line in ring] == [[[2.0, 2.0]]]


def test_a_tree_has_a_branch_for_each_answer_and_a_number_for_each_path():
    law = {("a", "accepted", "a"): 0.5, ("a", "rejected", "b"): 0.25, ("b", "accepted", "b"): 0.25}
    axes = plots.draw_tree(law, ["draft", "coin", "draw"])
    assert len(axes.lines) == 2 + 3 + 3
    assert [text.get_text() for text in axes.texts][-3:] == ["0.500", "0.250", "0.250"]
    rejected = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert [line.get_color() for line in rejected] == [plots.COLOR["residual"]] * 2


def test_a_gain_is_drawn_in_per_cent():
    axes = plots.draw_gain([0.2, 0.8], {"k = 2": [1.0, 1.05], "k = 4": [1.0, 1.1]})
    np.testing.assert_allclose([line.get_ydata()[1] for line in axes.lines], [5, 10])


def test_verdicts_are_marked_by_shape_and_number():
    cells = [
        {"drafter": "one", "setting": "plain", "verdict": "equal", "total_variation": 1e-8},
        {"drafter": "one", "setting": "top-k", "verdict": "not equal", "total_variation": 0.25},
        {"drafter": "two", "setting": "plain", "verdict": "not equal", "total_variation": 0.001},
        {"drafter": "two", "setting": "top-k", "verdict": "no difference found", "total_variation": None},
    ]
    axes = plots.draw_verdicts(cells)
    assert [line.get_marker() for line in axes.lines] == ["o", "s", "s", "o"]
    assert [text.get_text() for text in axes.texts] == [".25", "<.01"]
    assert axes.lines[3].get_markerfacecolor() == "none"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["one", "two"]


def test_prices_are_marked_by_shape_beside_the_price_before():
    axes = plots.draw_prices({"token": 0.25, "altered": 0.5}, 0.25, right={"token"})
    line, *marks = axes.lines
    assert line.get_xdata() == [0.25, 0.25]
    assert [mark.get_marker() for mark in marks] == ["o", "s"]
    assert [mark.get_xdata()[0] for mark in marks] == [0.25, 0.5]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["token", "altered"]
