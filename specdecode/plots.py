"""The figures of the book and of the command line, in one style with four fixed colours.

Each function draws into the axes it is given, or new ones, and returns them. Blue is the target,
orange the draft, green what is accepted, vermilion the residual; each also has a mark of its own, so
that colour is never the only difference.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from specdecode.checks import Row, TokenIds
from specdecode.cost import expected_tokens
from specdecode.rule import excess, overlap

try:
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes
    from matplotlib.ticker import MaxNLocator
except ImportError as error:
    raise ImportError("figures need Matplotlib: pip install 'specdecode[plot]'") from error

__all__ = [
    "COLOR",
    "check_path",
    "draw_gain",
    "draw_matrix",
    "draw_paths",
    "draw_prices",
    "draw_resolution",
    "draw_rounds",
    "draw_speedup",
    "draw_split",
    "draw_spread",
    "draw_sweep",
    "draw_tree",
    "draw_verdicts",
    "save",
    "use_style",
]

COLOR = {"target": "#0072b2", "draft": "#e69f00", "accepted": "#009e73", "residual": "#d55e00"}
_MARKS = "osD^vP*X"
_STYLE = Path(__file__).with_name("book.mplstyle")


def use_style() -> None:
    """Make every figure after this one look like the book; in a notebook, drawn as SVG without a date."""
    plt.style.use(_STYLE)
    try:
        from matplotlib_inline.backend_inline import set_matplotlib_formats
    except ImportError:
        return
    formats: Any = set_matplotlib_formats  # untyped where it comes from
    formats("svg", metadata={"Date": None})


def check_path(path: str | Path) -> Path:
    """A path that a figure can be saved to; asked before the work that the figure is to show.

    Parameters
    ----------
    path : str or Path
        Ends in .svg, .png or .pdf, in a folder that exists.

    Returns
    -------
    Path

    Raises
    ------
    ValueError
        If the ending names no picture format, or the place cannot be written to.
    """
    path = Path(path)
    if path.suffix.lower() not in (".svg", ".png", ".pdf"):
        raise ValueError(f"{str(path)!r} names no picture format; want a name ending in .svg, .png or .pdf")
    try:
        writable = not path.is_dir() and os.access(path if path.exists() else path.parent, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        raise ValueError(f"{str(path)!r} cannot be written; want a file in a folder that exists and is yours")
    return path


def save(axes: Axes, path: str | Path) -> None:
    """Write the figure of these axes to a file, its format read from the name.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    path : str or Path
        As `check_path` wants it.

    Raises
    ------
    ValueError
        As `check_path`.
    """
    path = check_path(path)
    figure: Any = axes.figure
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def draw_split(p: Row, q: Row, axes: Axes | None = None) -> Axes:
    """One row against another: the overlap they share, and the excess on either side.

    Parameters
    ----------
    p, q : array_like, shape (V,)
    axes : Axes, optional

    Returns
    -------
    Axes
    """
    axes = axes or plt.figure().gca()
    tokens = np.arange(len(p))
    shared, over, under = (
        np.asarray(row, dtype=float) for row in (overlap(p, q), excess(p, q), excess(q, p))
    )
    axes.bar(tokens, shared, 0.62, color=COLOR["accepted"], label="overlap: accepted")
    axes.bar(
        tokens, over, 0.62, shared, color=COLOR["residual"], hatch="//", label="excess: p over q", alpha=0.9
    )
    axes.bar(
        tokens,
        under,
        0.62,
        shared,
        fill=False,
        edgecolor=COLOR["draft"],
        ls="--",
        lw=1.6,
        label="q over p: rejected",
    )
    axes.hlines(
        np.asarray(p, dtype=float),
        tokens - 0.38,
        tokens + 0.38,
        color=COLOR["target"],
        lw=2.4,
        label="p, target",
    )
    axes.set(xlabel="token", ylabel="probability", xticks=tokens)
    axes.grid(axis="x", visible=False)
    axes.legend()
    return axes


def draw_rounds(
    trace: Sequence[tuple[TokenIds, TokenIds]], names: Sequence[str], axes: Axes | None = None
) -> Axes:
    """The rounds of a run, one line each: drafted tokens kept, rejected or never tested, and the token added.

    Parameters
    ----------
    trace : list of (proposed tokens, emitted tokens)
        One pair a round.
    names : sequence of str
        What to call token 0, 1, …
    axes : Axes, optional

    Returns
    -------
    Axes
    """
    axes = axes or plt.figure(figsize=(7.0, 0.62 * len(trace) + 1.1)).gca()
    for line, (proposed, emitted) in enumerate(trace):
        accepted = len(emitted) - 1
        for place, token in enumerate(proposed):
            fate = "kept" if place < accepted else "rejected" if place == accepted else "untested"
            _box(axes, place, line, names[token], COLOR["accepted" if fate == "kept" else "draft"], fate)
        added = "residual" if accepted < len(proposed) else "target"
        _box(axes, len(proposed) + 0.6, line, names[emitted[-1]], COLOR[added], "kept")
    k = max(len(proposed) for proposed, _ in trace)
    axes.set(
        xlim=(-0.6, k + 1.3), ylim=(len(trace) - 0.4, -0.6), yticks=range(len(trace)), ylabel="target pass"
    )
    axes.set_yticklabels([str(line + 1) for line in range(len(trace))])
    axes.set_xticks([*range(k), k + 0.6], [*(f"draft {i + 1}" for i in range(k)), "added"])
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return axes


def _box(axes: Axes, x: float, y: float, text: str, color: str, fate: str) -> None:
    kept = fate == "kept"
    box = {
        "boxstyle": "round,pad=0.35",
        "facecolor": color if kept else "none",
        "edgecolor": color,
        "lw": 1.6,
    }
    ink = "white" if kept else "#222222"
    alpha = 0.4 if fate == "untested" else 1
    axes.text(
        x,
        y,
        text,
        ha="center",
        va="center",
        color=ink,
        bbox=box | {"alpha": alpha},
        alpha=alpha,
        weight="bold",
    )
    if fate == "rejected":
        axes.plot([x - 0.22, x + 0.22], [y + 0.18, y - 0.18], color=color, lw=2.0)


def draw_matrix(
    caught: Mapping[str, Mapping[str, bool]],
    axes: Axes | None = None,
    *,
    elsewhere: Mapping[str, Mapping[str, bool]] | None = None,
) -> Axes:
    """Which test catches which sampler: a filled square for caught, a small ring for missed.

    Parameters
    ----------
    caught : dict
        Name of a sampler -> dict of test -> bool, the same tests for each.
    axes : Axes, optional
    elsewhere : dict, optional
        The same samplers and tests in another place; an open square for what is caught only there.

    Returns
    -------
    Axes
    """
    tests = list(next(iter(caught.values())))
    axes = axes or plt.figure(figsize=(6.6, 0.24 * len(caught) + 1.3)).gca()
    points: dict[str, list[tuple[int, int]]] = {"caught": [], "caught elsewhere only": [], "missed": []}
    for line, (name, row) in enumerate(caught.items()):
        for place, test in enumerate(tests):
            also = elsewhere is not None and elsewhere[name][test]
            fate = "caught" if row[test] else "caught elsewhere only" if also else "missed"
            points[fate].append((place, line))
    if elsewhere is None:
        del points["caught elsewhere only"]
    seen = {"marker": "s", "color": COLOR["residual"], "ms": 8}
    styles: dict[str, dict[str, Any]] = {
        "caught": seen,
        "caught elsewhere only": seen | {"mfc": "none", "mew": 1.6, "ms": 7},
        "missed": {"marker": "o", "color": COLOR["target"], "ms": 4, "mfc": "none"},
    }
    for fate, where in points.items():
        xs, ys = np.reshape(where, (-1, 2)).T
        axes.plot(xs, ys, ls="", label=fate, **styles[fate])
    axes.set_xticks(range(len(tests)), tests, rotation=35, ha="left")
    axes.set_yticks(range(len(caught)), list(caught))
    axes.xaxis.tick_top()
    axes.set(xlim=(-0.5, len(tests) - 0.5), ylim=(len(caught) - 0.5, -0.5))
    axes.tick_params(length=0, labelsize=9)
    axes.spines[:].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=len(points))
    return axes


def _draw_curves(
    xs: Sequence[float], curves: Mapping[str, Sequence[float]], axes: Axes | None, **style: Any
) -> Axes:
    """Labelled curves over the same points, told apart by shade and mark."""
    axes = axes or plt.figure().gca()
    shades = plt.get_cmap("cividis")(np.linspace(0, 0.8, len(curves)))
    for (label, ys), shade, mark in zip(curves.items(), shades, _MARKS):
        axes.plot(xs, ys, mark + "-", color=shade, label=label, **style)
    return axes


def draw_resolution(
    draws: Sequence[int], curves: Mapping[str, Sequence[float]], axes: Axes | None = None
) -> Axes:
    """Smallest total variation a sampled test sees, against the number of texts.

    Parameters
    ----------
    draws : sequence of int
    curves : dict
        Label -> resolution for each number of texts.
    axes : Axes, optional

    Returns
    -------
    Axes
    """
    axes = _draw_curves(draws, curves, axes)
    axes.set(xscale="log", yscale="log", xlabel="texts sampled", ylabel="total variation seen")
    axes.legend()
    return axes


def draw_paths(
    boxes: Iterable[tuple[tuple[Any, Any], tuple[Any, Any], str, str]], axes: Axes | None = None
) -> Axes:
    """Paths of a program with two uniforms: boxes that tile the unit square, each with its outcome.

    Parameters
    ----------
    boxes : list of ((low, high), (low, high), str, str)
        The intervals of the two uniforms, the text to write, and a key of `COLOR`.
    axes : Axes, optional

    Returns
    -------
    Axes
    """
    axes = axes or plt.figure(figsize=(6.0, 3.6)).gca()
    for (left, right), (bottom, top), text, meaning in boxes:
        left, right, bottom, top = map(float, (left, right, bottom, top))
        corners = [left, right, right, left], [bottom, bottom, top, top]
        axes.fill(*corners, color=COLOR[meaning], alpha=0.8, ec="white", lw=2)
        middle = (left + right) / 2, (bottom + top) / 2
        axes.text(*middle, text, ha="center", va="center", color="white", weight="bold")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.grid(visible=False)
    return axes


def draw_spread(
    sizes: Sequence[int] | np.ndarray, distances: Sequence[float] | np.ndarray, axes: Axes | None = None
) -> Axes:
    """Rounding of the float program: distance of the induced law from p, pair by pair.

    Parameters
    ----------
    sizes : array_like, shape (n,)
        Vocabulary size of each pair.
    distances : array_like, shape (n,)
        Total variation of each pair; zeros are drawn on the floor of the axis.
    axes : Axes, optional

    Returns
    -------
    Axes
    """
    axes = axes or plt.figure().gca()
    floor = min(d for d in [*distances, 2.0**-56] if d > 0) / 2
    axes.scatter(
        sizes, np.maximum(distances, floor), s=7, color=COLOR["target"], alpha=0.35, lw=0, rasterized=True
    )
    axes.axhline(2.0**-52, color=COLOR["residual"], ls="--", label="spacing of float64 at 1")
    axes.text(sizes[0], floor * 1.15, "exactly equal", fontsize=9)
    axes.set(xlabel="vocabulary size V", ylabel="total variation from p", yscale="log")
    axes.legend()
    return axes


def draw_sweep(rows: Sequence[Mapping[str, Any]], axes: Axes | None = None) -> Axes:
    """Tokens per target pass against acceptance: measurements, the closed form, and the ceiling k + 1.

    Parameters
    ----------
    rows : list of dict
        Measurements with "k", "conditional_acceptance" and "tokens_per_step".
    axes : Axes, optional

    Returns
    -------
    Axes
    """
    axes = axes or plt.figure(figsize=(7.0, 4.2)).gca()
    alphas = np.linspace(0, 1, 201)
    for mark, k in zip(_MARKS * len(rows), sorted({row["k"] for row in rows})):
        here = [row for row in rows if row["k"] == k]
        axes.plot(alphas, expected_tokens(alphas, k), lw=1.2, color=_shade(k))
        x, y = ([row[name] for row in here] for name in ("conditional_acceptance", "tokens_per_step"))
        axes.plot(x, y, mark, color=_shade(k), label=f"k = {k}")
        axes.plot([0.97, 1.0], [k + 1, k + 1], color=_shade(k), lw=3)
    axes.set(
        xlabel="conditional acceptance α", ylabel="tokens per target pass", xlim=(0, 1.01), ylim=(1, None)
    )
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    key = "mark: measured\ncurve: 1 + α + … + αᵏ\nbar: ceiling k + 1"
    axes.legend(title=key, loc="upper left", alignment="left")
    return axes


def draw_speedup(curves: Mapping[str, Sequence[float]], axes: Axes | None = None) -> Axes:
    """Speedup against draft length, one curve a setting, its best k ringed; below 1 speculation loses.

    Parameters
    ----------
    curves : dict
        Label -> speedups for k = 1, 2, …
    axes : Axes, optional

    Returns
    -------
    Axes
    """
    axes = axes or plt.figure().gca()
    shades = plt.get_cmap("cividis")(np.linspace(0, 0.8, len(curves)))  # the four colours mean something else
    for (label, speedups), colour, mark in zip(curves.items(), shades, _MARKS):
        lengths = np.arange(1, len(speedups) + 1)
        axes.plot(lengths, speedups, mark + "-", color=colour, label=label, ms=4)
        best = int(np.argmax(speedups))
        axes.plot(lengths[best], speedups[best], "o", ms=12, mfc="none", mec=colour, mew=1.6)
    axes.axhline(1, color="#4a4a4a", ls=":", lw=1.2)
    axes.set(xlabel="draft length k", ylabel="speedup over the target alone", ylim=(0, None))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return axes


def draw_gain(
    acceptance: Sequence[float], curves: Mapping[str, Sequence[float]], axes: Axes | None = None
) -> Axes:
    """How many per cent more of something, against acceptance; one curve a setting.

    Parameters
    ----------
    acceptance : sequence of float
        α at each point.
    curves : dict
        Label -> ratios, 1 for no gain.
    axes : Axes, optional

    Returns
    -------
    Axes
    """
    per_cent = {label: [100 * (float(ratio) - 1) for ratio in ratios] for label, ratios in curves.items()}
    axes = _draw_curves(acceptance, per_cent, axes, ms=4)
    axes.set(xlabel="acceptance α of one token", ylabel="more tokens per target pass, %", ylim=(0, None))
    axes.legend()
    return axes


def draw_tree(law: Mapping[tuple[str, ...], Any], levels: Sequence[str], axes: Axes | None = None) -> Axes:
    """The paths of a program as a tree: one level a draw, a branch an answer, its width the probability.

    Parameters
    ----------
    law : mapping
        Tuples of answers, one for each level -> probability. A branch is blue where it is the target's word,
        vermilion where an answer says "rejected" above it, green where it says "accepted".
    levels : sequence of str
        What was asked, level by level.
    axes : Axes, optional

    Returns
    -------
    Axes
    """
    axes = axes or plt.figure(figsize=(7.0, 4.6)).gca()
    leaves = sorted(law)
    height = {leaf: -i for i, leaf in enumerate(leaves)}

    def middle(stem: tuple[str, ...]) -> float:
        return float(np.mean([height[leaf] for leaf in leaves if leaf[: len(stem)] == stem]))

    stems = dict.fromkeys(leaf[:depth] for leaf in leaves for depth in range(1, len(levels) + 1))
    for stem in stems:
        mass = float(sum(law[leaf] for leaf in leaves if leaf[: len(stem)] == stem))
        start, end, depth = middle(stem[:-1]), middle(stem), len(stem)
        fate = next((answer for answer in stem if answer in ("accepted", "rejected")), "drafted")
        colour = COLOR[{"accepted": "accepted", "rejected": "residual", "drafted": "draft"}[fate]]
        line = "--" if fate == "rejected" else "-"
        axes.plot(
            [depth - 1, depth], [start, end], line, color=colour, lw=0.8 + 9 * mass, solid_capstyle="butt"
        )
        axes.annotate(
            stem[-1],
            (depth - 0.42, start + 0.58 * (end - start)),
            fontsize=9,
            ha="center",
            va="center",
            bbox={"boxstyle": "round,pad=0.15", "fc": axes.get_facecolor(), "ec": "none"},
        )
    for leaf in leaves:
        axes.annotate(f"{float(law[leaf]):.3f}", (len(levels) + 0.05, height[leaf]), fontsize=9, va="center")
    axes.set(xlim=(-0.05, len(levels) + 0.35), yticks=[], xticks=np.arange(len(levels)) + 0.5)
    axes.set_xticklabels(levels)
    axes.spines["left"].set_visible(False)
    axes.grid(False)
    return axes


def draw_prices(
    prices: Mapping[str, float], before: float, right: Collection[str], axes: Axes | None = None
) -> Axes:
    """The expected price of a bet after a round, a mark for each program, and a line at the price before.

    Parameters
    ----------
    prices : mapping
        Program -> expected price.
    before : float
    right : collection of str
        The programs that should be on the line: circles; the others are squares.
    axes : Axes, optional

    Returns
    -------
    Axes
    """
    axes = axes or plt.figure(figsize=(7.0, 0.6 + 0.29 * len(prices))).gca()
    axes.axvline(before, color=COLOR["target"], lw=1, ls="--")
    for height, (name, price) in enumerate(prices.items()):
        colour, mark = (COLOR["target"], "o") if name in right else (COLOR["residual"], "s")
        axes.plot(price, -height, mark, color=colour)
    axes.set(yticks=[-height for height in range(len(prices))], xlabel="expected price after a round")
    axes.set_yticklabels(prices)
    axes.grid(visible=False, axis="y")
    return axes


def draw_verdicts(cells: Sequence[Mapping[str, Any]], axes: Axes | None = None) -> Axes:
    """A grid of comparisons: a dot where two laws are equal, a square with the distance where they are not.

    Parameters
    ----------
    cells : sequence of dict
        With "drafter" (a row), "setting" (a column), "verdict", "total_variation" and "method", as
        `book/experiments/drafters.py` stores them.
    axes : Axes, optional

    Returns
    -------
    Axes
    """
    axes = axes or plt.figure(figsize=(9.5, 6.4)).gca()
    rows, columns = (list(dict.fromkeys(cell[name] for cell in cells)) for name in ("drafter", "setting"))
    for cell in cells:
        x, y = columns.index(cell["setting"]), rows.index(cell["drafter"])
        if cell["verdict"] == "not equal":
            axes.plot(x, y, "s", ms=19, color=COLOR["residual"])
            axes.annotate(
                _two_digits(cell["total_variation"]),
                (x, y),
                color="white",
                fontsize=8,
                ha="center",
                va="center",
            )
        else:
            full = cell["verdict"] == "equal"
            axes.plot(x, y, "o", ms=7, color=COLOR["accepted"], mfc=COLOR["accepted"] if full else "none")
    axes.set(xlim=(-0.6, len(columns) - 0.4), ylim=(len(rows) - 0.4, -0.6))
    axes.set_xticks(range(len(columns)), columns, rotation=50, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), rows)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    return axes


def _two_digits(distance: float) -> str:
    return "1" if distance > 0.995 else f"{distance:.2f}"[1:] if distance >= 0.005 else "<.01"


def _shade(k: int) -> tuple[float, float, float, float]:
    colour: tuple[float, float, float, float] = plt.get_cmap("cividis")(min(k, 10) / 12)
    return colour
