import pathlib
import warnings

import matplotlib as mpl
import numpy as np
from matplotlib import font_manager
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure  # without pyplot: no window, no global state

from zoo.errors import UsageError
from zoo.evaluation.words import START, checked_weights

# White is nothing, so that the picture prints.
BLUES = LinearSegmentedColormap.from_list(
    "blues", ["white", *mpl.colormaps["Blues"](np.linspace(0.2, 1.0, 9))]
)


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
    weights = checked_weights(source_tokens, target_tokens, weights)
    require_ending(path)
    columns, rows = _labels(source_tokens), _labels(target_tokens)
    fonts = fonts_for("".join([*columns, *rows, title or ""]))
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
    write_figure(figure, path)


def require_ending(path):
    """Raises an error unless matplotlib knows what the ending of a path says."""
    endings = Figure().canvas.get_supported_filetypes()
    if pathlib.Path(path).suffix.removeprefix(".").lower() not in endings:
        raise UsageError(
            f"`path` must end in one of {', '.join(sorted(endings))}. Received: {path}"
        )


def write_figure(figure, path):
    """Writes a figure whose fonts `fonts_for` has chosen."""
    with warnings.catch_warnings(), mpl.rc_context({"pdf.fonttype": 42}):  # fonts that can be read
        warnings.filterwarnings("ignore", "Glyph .* missing")  # fonts_for has said so
        figure.savefig(path, dpi=200, bbox_inches="tight")


def _labels(tokens):
    """What stands beside the picture: no marks, a dot where a word goes on, spaces to be seen."""
    if any(token.startswith(START) for token in tokens):
        goes_on = [i > 0 and token[:1].isalnum() for i, token in enumerate(tokens)]
        tokens = [
            f"·{token}" if dot else token.removeprefix(START)
            for token, dot in zip(tokens, goes_on, strict=True)
        ]
    return [token if token.strip() else "␣" for token in tokens]


def fonts_for(text):
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
