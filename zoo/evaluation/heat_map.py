import pathlib
import warnings

import matplotlib as mpl
import numpy as np
from matplotlib import font_manager
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure  # without pyplot: no window, no global state

# White is nothing, so that the picture prints.
BLUES = LinearSegmentedColormap.from_list(
    "blues", ["white", *mpl.colormaps["Blues"](np.linspace(0.2, 1.0, 9))]
)
START = "\u2581"  # what SentencePiece puts before the first piece of a word


def plot_heat_map(source_tokens, target_tokens, weights, path, title=None):
    """Draws where each target token looked in the source, and writes PNG, SVG or PDF.

    A piece that goes on with a word has a dot in front, and stronger lines are where words end.

    Arguments:
        source_tokens, target_tokens: lists of str.
        weights: (len(target_tokens), len(source_tokens)), the alignments of one result.
        path: where to write; the ending says what.
        title: str, above the picture.

    Example:

    ```python
    from zoo.evaluation.heat_map import plot_heat_map

    weights = [[0.9, 0.1, 0.0], [0.1, 0.8, 0.1], [0.0, 0.2, 0.8]]
    plot_heat_map(["c", "a", "t"], ["K", "AE", "T"], weights, "/tmp/heat.png")
    ```
    """
    weights = _checked(source_tokens, target_tokens, weights)
    endings = Figure().canvas.get_supported_filetypes()
    if pathlib.Path(path).suffix.removeprefix(".").lower() not in endings:
        raise ValueError(
            f"`path` must end in one of {', '.join(sorted(endings))}. Received: {path}"
        )
    columns, rows = _labels(source_tokens), _labels(target_tokens)
    fonts = _fonts_for("".join([*columns, *rows, title or ""]))
    # Inches a token: 30 of them fit the width of a page, few are not a giant's.
    side = float(np.clip(7.0 / max(len(columns), len(rows), 1), 0.21, 0.34))
    margin = 1.0  # for the labels
    size = (max(3.0, side * len(columns) + margin), max(2.4, side * len(rows) + margin))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    # The range is fixed, so that two pictures compare.
    image = axes.imshow(weights, cmap=BLUES, vmin=0.0, vmax=1.0, aspect="equal")
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=5)
    for label in [*axes.get_xticklabels(), *axes.get_yticklabels()]:
        label.set(fontfamily=fonts, fontsize=10 if side > 0.3 else 9, parse_math=False)
    if max(map(len, columns), default=0) > 3:
        for label in axes.get_xticklabels():
            label.set(rotation=60, ha="left", va="center", rotation_mode="anchor")
    axes.spines[:].set_visible(False)
    ends = {"color": "0.8", "linewidth": 0.8}
    within = {"color": "0.93", "linewidth": 0.8}
    for draw, tokens in ((axes.axvline, source_tokens), (axes.axhline, target_tokens)):
        for i in range(1, len(tokens)):
            draw(i - 0.5, **(ends if tokens[i].startswith(START) else within))
    bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=30, pad=0.02, ticks=[0, 0.5, 1])
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, length=0)
    if title:
        axes.set_title(title, fontfamily=fonts, parse_math=False)
    with warnings.catch_warnings(), mpl.rc_context({"pdf.fonttype": 42}):  # fonts that can be read
        warnings.filterwarnings("ignore", "Glyph .* missing")  # _fonts_for has said so
        figure.savefig(path, dpi=200, bbox_inches="tight")


def merge_words(source_tokens, target_tokens, weights):
    """Pieces of words put together, on both sides, where SentencePiece has split them.

    The weight of a pair of words is what all pieces of the source's word have together, in the mean
    of the pieces of the target's word: a row still sums to one.

    Arguments:
        source_tokens, target_tokens: lists of str; a side whose pieces do not mark where words
            start is left as it is.
        weights: (len(target_tokens), len(source_tokens)).

    Returns source words, target words and their weights.

    Example:

    ```python
    from zoo.evaluation.heat_map import merge_words

    pieces = ["\u2581ein", "\u2581Fahr", "rad"], ["\u2581a", "\u2581bi", "cycle"]
    weights = [[1.0, 0.0, 0.0], [0.2, 0.4, 0.4], [0.0, 0.2, 0.8]]
    sources, targets, weights = merge_words(*pieces, weights)
    assert (sources, targets) == (["ein", "Fahrrad"], ["a", "bicycle"])
    print(weights)  # [[1.0, 0.0], [0.1, 0.9]]
    ```
    """
    weights = _checked(source_tokens, target_tokens, weights)
    sources, source_starts = _words(source_tokens)
    targets, target_starts = _words(target_tokens)
    if sources:
        weights = np.add.reduceat(weights, source_starts, axis=1)
    if targets:
        sizes = np.diff([*target_starts, len(target_tokens)])
        weights = np.add.reduceat(weights, target_starts, axis=0) / sizes[:, None]
    return sources, targets, weights


def _words(tokens):
    """The words that tokens make, and the index of the first token of each."""
    marked = any(token.startswith(START) for token in tokens)
    words, starts = [], []
    for i, token in enumerate(tokens):
        if i == 0 or not marked or token.startswith(START):
            words.append("")
            starts.append(i)
        words[-1] += token.removeprefix(START)
    return words, starts


def _checked(source_tokens, target_tokens, weights):
    weights = np.asarray(weights, "float64")
    if weights.shape != (len(target_tokens), len(source_tokens)):
        raise ValueError(
            f"`weights` must have shape ({len(target_tokens)}, {len(source_tokens)}), a row for "
            f"each target token. Received: weights.shape={weights.shape}"
        )
    return weights


def _labels(tokens):
    """What stands beside the picture: no marks, a dot where a word goes on, spaces to be seen."""
    if any(token.startswith(START) for token in tokens):
        goes_on = [i > 0 and token[:1].isalnum() for i, token in enumerate(tokens)]
        tokens = [
            f"·{token}" if dot else token.removeprefix(START)
            for token, dot in zip(tokens, goes_on, strict=True)
        ]
    return [token if token.strip() else "␣" for token in tokens]


def _fonts_for(text):
    """Matplotlib's font, and behind it installed ones with the characters that it lacks."""
    fonts = [mpl.rcParams["font.sans-serif"][0]]
    missing = {c for c in text if not c.isspace()}
    missing -= _characters(font_manager.findfont(fonts[0]))
    # Upright and of normal weight before the others.
    others = sorted(
        font_manager.fontManager.ttflist, key=lambda f: (f.style != "normal", f.weight != 400)
    )
    for font in others if missing else ():
        found = missing & _characters(font.fname) if "LastResort" not in font.fname else None
        if found:
            fonts.append(font.name)
            missing -= found
        if not missing:
            break
    if missing:
        warnings.warn(
            f"No font is installed that has {' '.join(sorted(missing))}: the picture shows boxes. "
            "Noto has most scripts (Debian: fonts-noto-cjk for Chinese, Japanese and Korean)",
            stacklevel=3,
        )
    return fonts


def _characters(path):
    return {chr(code) for code in font_manager.get_font(path).get_charmap()}
