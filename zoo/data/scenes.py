"""Pictures of coloured shapes, each with the one caption that is right, drawn in numpy."""

import hashlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from zoo.data.builders import PairsBuilder
from zoo.data.pairs import SPLIT_NAMES

SIZE = 64  # pixels of a side
COLOURS = {
    "black": (25, 25, 25),
    "blue": (40, 80, 225),
    "green": (35, 160, 60),
    "purple": (150, 50, 190),
    "red": (220, 40, 40),
    "yellow": (240, 215, 40),
}
SHAPES = ("circle", "cross", "square", "triangle")
NUMBERS = ("a", "two", "three", "four", "five")
RELATIONS = ("left of", "right of", "above", "below")
MOST = 3  # shapes of a group, where there are two groups
RADII = (4.5, 7.5)  # of shapes, in pixels
MARGIN = 6.0  # by which one direction from group to group is the longer one
GAP = 1.5  # pixels between shapes, at least


class Group(NamedTuple):
    """So many shapes of one kind."""

    shape: str
    colour: str
    count: int

    def __str__(self):
        many = "s" if self.count > 1 else ""
        many = "es" if many and self.shape.endswith("ss") else many
        return f"{NUMBERS[self.count - 1]} {self.colour} {self.shape}{many}"


class Meaning(NamedTuple):
    """What is in a scene: a group, or two of different kinds and where the first one is."""

    groups: tuple
    relation: str | None = None

    def __str__(self):
        return f" {self.relation} ".join(map(str, self.groups))

    def is_of(self, split):
        """Whether this is the caption of scenes of a split: each pair of groups is of one alone."""
        number = hashlib.sha256(str(self).encode()).digest()[0] % 8
        return len(self.groups) == 1 or split == {0: "validation", 1: "test"}.get(number, "train")


def draw_scene(seed, split="train"):
    """A scene of a split: pixels (64, 64, 3), uint8, and its caption.

    A caption says how many shapes of which colour there are, such as "three blue squares", or of
    two such groups where the first one is: "a red circle left of two green crosses". The group
    whose shape, and else whose colour, comes first in the alphabet is named first. "left of" means
    that all of the first group is left of all of the second, and that the way from the middle of
    one to the middle of the other is longer sideways than upwards; so it is with "above".

    Place, size, angle and shade of each shape are drawn at random, and so is the background. No
    caption of two groups is in two splits. Those of one are in all, since they are so few: a
    network that has seen many pictures of each learns, with good reason, that those held out never
    come.

    Arguments:
        seed: int or list of ints.
        split: "train", "validation" or "test".

    Example:

    ```python
    from zoo.data import draw_scene

    pixels, caption = draw_scene(seed=5)
    assert pixels.shape == (64, 64, 3)
    assert caption == "two black circles right of two blue triangles"
    ```
    """
    if split not in SPLIT_NAMES:
        raise ValueError(f"`split` must be one of {list(SPLIT_NAMES)}. Received: split={split!r}")
    rng = np.random.default_rng(seed)
    is_alone = rng.random() < 0.25  # drawn once: one group is accepted more often than two
    while True:
        meaning = _draw_meaning(is_alone, rng)
        shapes = _place(meaning, rng) if meaning.is_of(split) else None
        if shapes:
            return _paint(shapes, rng), str(meaning)


def _draw_meaning(is_alone, rng):
    kinds = [(shape, colour) for shape in SHAPES for colour in COLOURS]
    if is_alone:
        kind = kinds[rng.integers(len(kinds))]
        return Meaning((Group(*kind, int(rng.integers(1, len(NUMBERS) + 1))),))
    first, second = sorted(rng.choice(len(kinds), 2, replace=False))
    counts = rng.integers(1, MOST + 1, 2).tolist()
    groups = Group(*kinds[first], counts[0]), Group(*kinds[second], counts[1])
    return Meaning(groups, RELATIONS[rng.integers(len(RELATIONS))])


class Shape(NamedTuple):
    """A shape in its place; x goes to the right, y down."""

    kind: str
    colour: str
    x: float
    y: float
    radius: float
    angle: float


def _place(meaning, rng):
    """Shapes that mean this, or None where chance did not find room."""
    wanted = [(i, group) for i, group in enumerate(meaning.groups) for _ in range(group.count)]
    radii = rng.uniform(*RADII, len(wanted))
    low, high = radii + 1, SIZE - 1 - radii
    border = rng.uniform(0.35, 0.65) * SIZE
    limits = []  # of x and y, for each shape
    for (i, _), radius, a, b in zip(wanted, radii, low, high, strict=True):
        limit = [[a, b], [a, b]]
        if meaning.relation:
            is_upright = meaning.relation in ("above", "below")
            is_before = (i == 0) == (meaning.relation in ("left of", "above"))
            edge = border - radius - GAP if is_before else border + radius + GAP
            limit[is_upright][is_before] = edge
        limits.append(limit)
    limits = np.array(limits)
    if (limits[:, :, 0] >= limits[:, :, 1]).any():
        return None
    for _ in range(100):
        places = rng.uniform(limits[:, :, 0], limits[:, :, 1])  # (shapes, 2)
        apart = np.linalg.norm(places[:, None] - places, axis=-1)
        room = radii[:, None] + radii + GAP
        if (apart < room)[np.triu_indices(len(radii), 1)].any():
            continue
        if meaning.relation and not _is_clear(meaning, places):
            continue
        angles = rng.uniform(-0.25, 0.25, len(wanted))
        parts = zip(wanted, places.tolist(), radii, angles, strict=True)
        return [Shape(g.shape, g.colour, *place, r, angle) for (_, g), place, r, angle in parts]
    return None


def _is_clear(meaning, places):
    """Whether the way between the middles of two groups is clearly longer as the relation says."""
    first = meaning.groups[0].count
    sideways, upright = np.abs(places[:first].mean(0) - places[first:].mean(0))
    if meaning.relation in ("above", "below"):
        sideways, upright = upright, sideways
    return sideways > upright + MARGIN


def _paint(shapes, rng):
    """Pixels (SIZE, SIZE, 3): a grey that is lighter on one side, and the shapes on it."""
    steps = (np.arange(SIZE) - SIZE / 2) / SIZE
    slope = rng.uniform(-30, 30, 2)
    ground = rng.uniform(150, 210) + slope[0] * steps[None, :] + slope[1] * steps[:, None]
    pixels = ground[:, :, None] + rng.uniform(-8, 8, 3)
    for shape in shapes:
        # The pixels around it; further ones it does not reach.
        left, top = int(shape.x - shape.radius) - 2, int(shape.y - shape.radius) - 2
        left, top, side = max(left, 0), max(top, 0), int(2 * shape.radius) + 6
        part = pixels[top : top + side, left : left + side]
        y, x = np.mgrid[top : top + part.shape[0], left : left + part.shape[1]] + 0.5
        inside = np.clip(0.5 - _distance(shape, x, y), 0, 1)[:, :, None]  # how much of each pixel
        colour = np.array(COLOURS[shape.colour]) + rng.uniform(-18, 18, 3)
        part += (colour - part) * inside
    return np.clip(np.rint(pixels), 0, 255).astype("uint8")


def _distance(shape, x, y):
    """About how far outside of a shape points are; inside it is negative."""
    cos, sin = np.cos(shape.angle), np.sin(shape.angle)
    x, y, r = x - shape.x, y - shape.y, shape.radius
    x, y = cos * x + sin * y, cos * y - sin * x
    if shape.kind == "circle":
        return np.hypot(x, y) - 0.9 * r
    across, along = np.abs(x), np.abs(y)
    if shape.kind == "square":
        return np.maximum(across, along) - 0.7 * r
    if shape.kind == "cross":
        thick, arm = 0.28 * r, 0.93 * r
        bars = [np.maximum(across - thick, along - arm), np.maximum(across - arm, along - thick)]
        return np.minimum(*bars)
    # A triangle stands on its side: the point above, the corners within the radius.
    return np.maximum(y - 0.5 * r, across * np.cos(np.pi / 6) - y * 0.5 - 0.5 * r)


class Scenes(PairsBuilder, skip_registration=True):
    """Coloured shapes with exact captions, as `draw_scene` draws them.

    What dev and test ask for was never in training: where a scene has two groups, its combination
    of numbers, colours, shapes and places is in no other split. All scenes are drawn anew.

    Arguments:
        size: int, the number of scenes to train on; an eighth of it, but 1,000 at the most, are
            in each of the other splits.
        seed: int.
    """

    name = "scenes"
    VERSION = tfds.core.Version("2.0.0")  # 1 kept captions of one group apart too
    source_feature = tfds.features.Image(shape=(SIZE, SIZE, 3), encoding_format="png")

    def __init__(self, size=24000, seed=1, **kwargs):
        few = max(1, min(1000, size // 8))
        self.sizes = {"train": size, "validation": few, "test": few}
        self.seed = seed
        config = tfds.core.BuilderConfig(name=f"{size}_{seed}", version=self.VERSION)
        super().__init__(config=config, **kwargs)

    def _info(self):
        return self._pairs_info(description=self.__doc__, license="made by the zoo: no rights")

    def _splits(self, dl_manager):
        return self.sizes

    def _examples(self, split, size, report):
        for i in range(size):
            seed = [self.seed, list(self.sizes).index(split), i]
            pixels, caption = draw_scene(seed, split)
            report.examples += 1
            yield {"source": tf.io.encode_png(pixels).numpy(), "targets": [caption]}
