import math

import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure  # without pyplot: no window, no global state

from zoo.evaluation.heat_map import START, fonts_for, require_ending, write_figure
from zoo.image import ImageReader

PANELS = 5  # beside each other
SIDES = (256, 768)  # pixels of the square that is drawn, at least and at most
FAINT = 0.15  # is how much is left of what was not looked at


def plot_image_map(image, target_tokens, weights, path):
    """Draws where each word of a caption looked in a picture: what it did not see fades.

    Arguments:
        image: bytes, the contents of a file.
        target_tokens: list of str.
        weights: (len(target_tokens), rows * columns) of the square grid that an `ImageReader`
            makes of a picture, row by row.
        path: where to write PNG, SVG or PDF; the ending says what.

    Example:

    ```python
    import numpy as np
    import tensorflow as tf
    from zoo.data import draw_scene
    from zoo.evaluation.image_map import plot_image_map

    pixels, caption = draw_scene(seed=5)
    image, words = tf.io.encode_png(pixels).numpy(), caption.split()
    weights = np.random.dirichlet(np.ones(64), size=len(words))  # an 8 x 8 grid
    plot_image_map(image, words, weights, "/tmp/looked.png")
    ```
    """
    require_ending(path)
    weights = np.asarray(weights, "float64")
    side = math.isqrt(weights.shape[-1]) if weights.ndim == 2 else 0
    if weights.shape != (len(target_tokens), side * side):
        raise ValueError(
            f"`weights` must have a row for each of the {len(target_tokens)} words, and a square "
            f"grid in each. Received: weights.shape={weights.shape}"
        )
    pixels, is_image = _square(image)
    words = [token.removeprefix(START) or " " for token in target_tokens]
    fonts = fonts_for("".join(words))
    across = min(PANELS, len(words) + 1)
    down = -(-(len(words) + 1) // across)
    figure = Figure(figsize=(1.55 * across, 1.78 * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for panel in panels:
        panel.axis("off")
    rows, columns = np.flatnonzero(is_image.any(1)), np.flatnonzero(is_image.any(0))
    part = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
    panels[0].imshow(pixels[part])
    for panel, word, looked in zip(panels[1:], words, weights, strict=False):
        seen = _smooth(looked.reshape(side, side), len(pixels))[part][:, :, None]
        seen = FAINT + (1 - FAINT) * seen / max(seen.max(), 1e-9)
        panel.imshow(pixels[part] * seen + (1 - seen))  # as if white lay over the rest
        panel.set_title(word, fontfamily=fonts, fontsize=11, pad=3, parse_math=False)
    write_figure(figure, path)


def _square(image):
    """An encoded picture as a model sees it: (side, side, 3) in [0, 1], and where it is."""
    longest = max(tf.io.decode_image(image, expand_animations=False).shape[:2])
    # Few pixels become many alike, and not a blur.
    factor = max(1, -(-SIDES[0] // longest))
    reader = ImageReader(min(longest, SIDES[1]), patch=1)
    pixels = reader.read([image])[0].numpy().repeat(factor, 0).repeat(factor, 1)
    return pixels / 255, pixels.any(-1)


def _smooth(grid, size):
    """A grid (side, side) with straight lines between its points, as large as a picture."""
    side = len(grid)
    places = np.clip((np.arange(size) + 0.5) * side / size - 0.5, 0, side - 1)
    near = 1 - np.abs(places[:, None] - np.arange(side))  # of each pixel to each point
    near = np.clip(near, 0, 1)
    return near @ grid @ near.T
