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
    """Panels side by side. Each is a dict: `curves` of label -> (x, y), and settings of its axes."""
    figure = Figure(figsize=(4.2 * len(panels), 3.1), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        curves, settings = panel["curves"], {k: v for k, v in panel.items() if k != "curves"}
        for (label, (x, y)), color, marker in zip(curves.items(), COLORS, MARKERS, strict=False):
            every = max(1, len(x) // 10)
            style = {"marker": marker, "markersize": 4.5, "markevery": every}
            axes.plot(x, y, color=color, label=label, **style)
        axes.set(**settings)
        axes.grid(color="0.92", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    save(figure, path)


def maps(path, *panels):
    """Heat maps side by side, each (title, columns, rows, weights), all from 0 to 1."""
    widths = [len(columns) for _, columns, _, _ in panels]
    tallest = max(len(rows) for _, _, rows, _ in panels)
    side = min(0.36, 11.0 / (sum(widths) + 2 * len(panels)))  # inches a token
    size = (side * (sum(widths) + 3 * len(panels)), side * tallest + 1.2)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False, width_ratios=widths)[0]
    for axes, (title, columns, rows, weights) in zip(grid, panels, strict=True):
        axes.imshow(weights, cmap=BLUES, vmin=0.0, vmax=1.0)
        axes.set_xticks(range(len(columns)), columns)
        axes.set_yticks(range(len(rows)), rows)
        if max(map(len, columns)) > 2:
            axes.tick_params(axis="x", rotation=90)
        axes.xaxis.tick_top()
        axes.set_xlabel(title)
        _grid_of_cells(axes, len(columns), len(rows))
    save(figure, path)


def _grid_of_cells(axes, columns, rows):
    axes.tick_params(length=0, pad=4)
    axes.spines[:].set_visible(False)
    for i in range(1, columns):
        axes.axvline(i - 0.5, color="0.93", linewidth=0.8)
    for i in range(1, rows):
        axes.axhline(i - 0.5, color="0.93", linewidth=0.8)


def tree(path, chances, first, end, kept, greedy):
    """A search tree. `chances` maps a word to its next words with their probabilities.

    What stands in `kept`, a set of tuples of words, is drawn strong; the path `greedy` in orange.
    """
    figure = Figure(figsize=(8.4, 3.4), layout="constrained")
    axes = figure.add_subplot()
    leaves = 0

    def place(words, probability):
        """Draws all that begins with `words`, and returns the height of its own node."""
        nonlocal leaves
        following = [w for w in chances[(words or (first,))[-1]] if w != end]
        if not following:
            leaves += 1
        heights = {}
        for word in following:
            chance = chances[(words or (first,))[-1]][word]
            heights[word] = place((*words, word), probability * chance), chance
        y = sum(h for h, _ in heights.values()) / len(heights) if heights else -float(leaves)
        for word, (height, chance) in heights.items():
            child, x = (*words, word), len(words)
            color = colour(child)
            strong = {"color": color, "linewidth": 2.4 if color != GREY else 1.2, "zorder": 1}
            axes.plot([x + 0.32, x + 0.68], [y, height], **strong)
            at = (x + 0.5, (y + height) / 2)
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
            axes.text(*at, f"{chance:g}", ha="center", va="center", fontsize=9, bbox=box)
        color = colour(words)
        label = f"{words[-1]}\n{probability:.3g}" if words else first
        box = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": color}
        box["linewidth"] = 2.0 if color != GREY else 1.0
        shade = "black" if color != GREY else "0.4"
        axes.text(len(words), y, label, ha="center", va="center", color=shade, bbox=box)
        return y

    def colour(words):
        if words and words == greedy[: len(words)] and words not in kept:
            return ORANGE
        return BLUE if not words or words in kept else GREY

    place((), 1.0)
    axes.set(xlim=(-0.4, 3.5), ylim=(-leaves - 0.6, -0.4))
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
    figure.savefig(path, dpi=DPI, pil_kwargs={"optimize": True})


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
