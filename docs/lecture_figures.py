"""The pictures of docs/lecture.md, and a command that runs that page and so makes them anew.

    python -m docs.lecture_figures [--output docs/lecture]

The page computes what is shown; here is only how it looks. Colours are those of Okabe and Ito,
which the colour-blind can tell apart, and white is nothing.
"""

import argparse
import os
import pathlib
import re

from matplotlib.figure import Figure  # without pyplot: no window, no global state

from zoo.evaluation.heat_map import BLUES

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
BLUE, ORANGE, GREY = COLORS[0], COLORS[1], "0.6"
MARKERS = ("o", "s", "^", "D")
DPI = 150


def lines(path, *panels):
    """Panels side by side, dicts of `curves`, label -> (x, y), and of settings of the axes."""
    figure = Figure(figsize=(4.2 * len(panels), 3.1), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        curves, settings = panel["curves"], {k: v for k, v in panel.items() if k != "curves"}
        for (label, (x, y)), color, marker in zip(curves.items(), COLORS, MARKERS, strict=False):
            every = max(1, len(x) // 10)
            style = {"marker": marker, "markersize": 4.5, "markevery": every}
            axes.plot(x, y, color=color, label=label, **style)
        axes.set(**settings)
        if "xticks" in settings:
            axes.minorticks_off()
        axes.grid(color="0.92", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    save(figure, path)


def networks(path, weights):
    """An encoder and a decoder without attention, and with it as its last step looks."""
    figure = Figure(figsize=(8.8, 3.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    n = len(weights)
    for axes, title in ((left, "without attention"), (right, "with attention")):
        for i in range(n):
            _box(axes, i, 0, f"$h_{i + 1}$", BLUE)
            _box(axes, i, 2, f"$s_{i + 1}$", ORANGE)
            _arrow(axes, (i, -0.75), (i, -0.32))
            _arrow(axes, (i, 2.32), (i, 2.75))
            axes.text(i, -0.95, f"$x_{i + 1}$", ha="center", va="center")
            axes.text(i, 2.95, f"$y_{i + 1}$", ha="center", va="center")
            if i:
                _arrow(axes, (i - 0.72, 0), (i - 0.28, 0))
                _arrow(axes, (i - 0.72, 2), (i - 0.28, 2))
        axes.text(-0.55, 0, "encoder", ha="right", va="center")
        axes.text(-0.55, 2, "decoder", ha="right", va="center")
        axes.text((n - 1) / 2, 3.6, title, ha="center", va="center", fontsize=12)
        axes.set(xlim=(-1.6, n - 0.5), ylim=(-1.2, 3.8))
        axes.set_axis_off()
    _arrow(left, (n - 1, 0.32), (0, 1.68), BLUE, 5.0)
    left.text((n - 1) / 2 + 0.25, 1.02, "summary", color=BLUE, ha="left", va="bottom")
    for i, weight in enumerate(weights):
        _arrow(right, (i, 0.32), (n - 1, 1.68), BLUE, 0.8 + 5 * weight)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
        at = (i + 0.4 * (n - 1 - i), 0.32 + 0.4 * 1.36)
        right.text(*at, f"{weight:.3f}", fontsize=9, ha="center", va="center", bbox=box)
    save(figure, path)


def _box(axes, x, y, label, color):
    box = {"boxstyle": "round,pad=0.45", "facecolor": "white", "edgecolor": color, "linewidth": 1.6}
    axes.text(x, y, label, ha="center", va="center", bbox=box)


def _arrow(axes, start, end, color="0.4", width=1.2):
    style = {"arrowstyle": "-|>", "color": color, "linewidth": width, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops={**style, "mutation_scale": 8 + 1.5 * width})


def maps(path, *panels):
    """Heat maps side by side, each (title, columns, rows, weights), all from 0 to 1."""
    widths = [len(columns) for _, columns, _, _ in panels]
    tallest = max(len(rows) for _, _, rows, _ in panels)
    side = min(0.34, 8.0 / sum(widths))  # inches a token
    figure = Figure(figsize=(side * (sum(widths) + 5), side * tallest + 1.3), layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False, width_ratios=widths)[0]
    before = None
    for axes, (title, columns, rows, weights) in zip(grid, panels, strict=True):
        axes.imshow(weights, cmap=BLUES, vmin=0.0, vmax=1.0)
        axes.set_anchor("N")
        upright = 90 if max(map(len, columns)) > 2 else 0
        axes.set_xticks(range(len(columns)), columns, rotation=upright)
        axes.set_yticks(range(len(rows)), rows if rows != before else [""] * len(rows))
        axes.xaxis.tick_top()
        axes.set_xlabel(title)
        _grid_of_cells(axes, len(columns), len(rows))
        before = rows
    save(figure, path)


def _grid_of_cells(axes, columns, rows):
    axes.tick_params(length=0, pad=4)
    axes.spines[:].set_visible(False)
    for i in range(1, columns):
        axes.axvline(i - 0.5, color="0.93", linewidth=0.8)
    for i in range(1, rows):
        axes.axhline(i - 0.5, color="0.93", linewidth=0.8)


def tree(path, chances, ends, kept, greedy, best):
    """A search tree. `chances` maps a word to its next words with their probabilities.

    The words in `ends` start and end a text. Beginnings, tuples of words: those in `kept` have a
    blue frame, those of `best` are filled, those of `greedy` are orange where it goes astray.
    """
    first, last = ends
    figure = Figure(figsize=(8.4, 3.4), layout="constrained")
    axes = figure.add_subplot()
    leaves = 0

    def style(words):
        """The colour of a beginning, and whether it is filled."""
        if words == best[: len(words)]:
            return BLUE, True
        if words == greedy[: len(words)]:
            return ORANGE, False
        return (BLUE if words in kept else GREY), False

    def place(words, probability):
        """Draws all that begins with `words`, and returns the height of its own node."""
        nonlocal leaves
        following = chances[words[-1] if words else first]
        following = {word: chance for word, chance in following.items() if word != last}
        heights = {w: place((*words, w), probability * chance) for w, chance in following.items()}
        if not heights:
            leaves += 1
        x, y = len(words), sum(heights.values()) / len(heights) if heights else -leaves
        for word, height in heights.items():
            color, _ = style((*words, word))
            width = 1.0 if color == GREY else 2.4
            axes.plot([x, x + 1], [y, height], color=color, linewidth=width, zorder=1)
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
            at = (x + 0.5, (y + height) / 2)
            axes.text(*at, f"{following[word]:g}", ha="center", va="center", fontsize=9, bbox=box)
        color, filled = style(words)
        box = {"boxstyle": "round,pad=0.35", "edgecolor": color, "linewidth": 1.6}
        box["facecolor"] = color if filled else "white"
        ink = "white" if filled else "0.4" if color == GREY else "black"
        label = f"{words[-1]}\n{probability:.3g}" if words else first
        axes.text(x, y, label, ha="center", va="center", color=ink, bbox=box)
        return y

    place((), 1.0)
    axes.set(xlim=(-0.3, len(best) + 0.4), ylim=(-leaves - 0.5, -0.5))
    axes.set_axis_off()
    save(figure, path)


def positions(path, encoding, similarity):
    """Encodings (time, dim) of positions, and how like each other they are (time, time)."""
    figure = Figure(figsize=(9.0, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.6, 1))
    image = left.imshow(encoding, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    left.set(xlabel="dimension", ylabel="position")
    figure.colorbar(image, ax=left, ticks=[-1, 0, 1]).outline.set_visible(False)
    image = right.imshow(similarity, cmap=BLUES, vmin=0)
    right.set(xlabel="position", ylabel="position")
    figure.colorbar(image, ax=right, label="dot product").outline.set_visible(False)
    for axes in (left, right):
        axes.spines[:].set_visible(False)
    save(figure, path)


def save(figure, path):
    figure.savefig(path, dpi=DPI, bbox_inches="tight", pad_inches=0.06)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="docs/lecture")
    os.environ["FIGURES"] = parser.parse_args().output
    page = pathlib.Path(__file__).with_name("lecture.md").read_text()
    names = {"__name__": "lecture"}
    for code in re.findall(r"^```python\n(.*?)^```", page, re.S | re.M):
        exec(compile(code, "docs/lecture.md", "exec"), names)


if __name__ == "__main__":
    main()
