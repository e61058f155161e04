import pathlib

import numpy as np
from matplotlib.figure import Figure  # without pyplot: no window, no global state


def plot_heat_map(source_tokens, target_tokens, weights, path, title=None):
    """Draws where each target token looked in the source, and writes PNG, SVG or PDF.

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
    weights = np.asarray(weights, "float64")
    if weights.shape != (len(target_tokens), len(source_tokens)):
        raise ValueError(
            f"`weights` must have shape ({len(target_tokens)}, {len(source_tokens)}), a row for "
            f"each target token. Received: weights.shape={weights.shape}"
        )
    endings = Figure().canvas.get_supported_filetypes()
    if pathlib.Path(path).suffix.removeprefix(".").lower() not in endings:
        raise ValueError(
            f"`path` must end in one of {', '.join(sorted(endings))}. Received: {path}"
        )
    side, margin = 0.34, 1.0  # inches a token, and for the labels
    size = (max(3.0, side * weights.shape[1] + margin), max(2.4, side * weights.shape[0] + margin))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    # White is nothing, so that the picture prints; the range is fixed, so that two compare.
    image = axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="equal")
    long_labels = max(map(len, source_tokens), default=0) > 3
    axes.set_xticks(range(len(source_tokens)), source_tokens, rotation=90 if long_labels else 0)
    axes.set_yticks(range(len(target_tokens)), target_tokens)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    for edge in axes.spines.values():
        edge.set_visible(False)
    axes.set_xticks(np.arange(1, weights.shape[1]) - 0.5, minor=True)
    axes.set_yticks(np.arange(1, weights.shape[0]) - 0.5, minor=True)
    axes.grid(which="minor", color="0.92", linewidth=0.8)
    axes.tick_params(which="minor", length=0)
    bar = figure.colorbar(image, ax=axes, shrink=0.7, ticks=[0, 0.5, 1])
    bar.outline.set_visible(False)
    if title:
        axes.set_title(title)
    figure.savefig(path, dpi=160, bbox_inches="tight")
