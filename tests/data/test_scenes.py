"""The captions of scenes are true: a reader of its own finds the shapes in the pixels."""

import itertools

import numpy as np
import pytest

from zoo.data import Scenes, draw_scene
from zoo.data.scenes import COLOURS

SPLITS = ("train", "validation", "test")


def pieces(inside):
    """The connected parts of a mask: arrays of (y, x)."""
    left = {tuple(place) for place in np.argwhere(inside).tolist()}
    while left:
        part, todo = [], [left.pop()]
        while todo:
            y, x = todo.pop()
            part.append((y, x))
            near = {(y + dy, x + dx) for dy, dx in itertools.product((-1, 0, 1), repeat=2)} & left
            left -= near
            todo += near
        yield np.array(part)


def without_ground(pixels):
    """How far each pixel is from the background, a plane of grey, and in what direction."""
    y, x = np.mgrid[:64, :64]
    plane = np.stack([np.ones(64 * 64), x.ravel(), y.ravel()], axis=1)
    colours = pixels.reshape(-1, 3).astype(float)
    ground = np.median(colours, axis=0)[None]
    for limit in (60, 40, 25, 15):
        is_ground = np.abs(colours - ground).max(1) < limit
        ground = plane @ np.linalg.lstsq(plane[is_ground], colours[is_ground], rcond=None)[0]
    return np.linalg.norm(colours - ground, axis=1).reshape(64, 64)


def shape_of(part, cover):
    """By moments of the area around its middle, which no turn and no size changes."""
    w = cover[part[:, 0], part[:, 1]]
    y, x = ((part - np.average(part, axis=0, weights=w)) / np.sqrt(w.sum())).T
    z, r = x + 1j * y, np.hypot(x, y)
    three, four = (abs((w * z**n).sum()) / (w * r**n).sum() for n in (3, 4))
    if three > 0.25:
        return "triangle"
    if four < 0.2:
        return "circle"
    return "cross" if (w * r**2).sum() / w.sum() > 0.185 else "square"


def described(pixels):
    """The caption of a picture, from nothing but its pixels."""
    far = without_ground(pixels)
    found = {}
    for part in pieces(far > 45):
        if len(part) < 12:
            continue
        core = part[far[part[:, 0], part[:, 1]] > 0.9 * far[part[:, 0], part[:, 1]].max()]
        colour = pixels[core[:, 0], core[:, 1]].mean(0)
        name = min(COLOURS, key=lambda one: np.linalg.norm(colour - COLOURS[one]))
        rim = {(y + dy, x + dx) for y, x in part for dy in (-1, 0, 1) for dx in (-1, 0, 1)}
        rim = np.array([place for place in rim if min(place) >= 0 and max(place) < 64])
        strength = np.median(far[core[:, 0], core[:, 1]])
        cover = np.clip(far / strength, 0, 1)
        kind = shape_of(rim, np.where(cover > 0.08, cover, 0))
        found.setdefault((kind, name), []).append(part.mean(0))
    numbers = ("a", "two", "three", "four", "five")
    words = []
    for (kind, colour), places in sorted(found.items()):
        ending = {"cross": "es"}.get(kind, "s") if len(places) > 1 else ""
        words.append(f"{numbers[len(places) - 1]} {colour} {kind}{ending}")
    if len(found) == 1:
        return words[0]
    (_, first), (_, second) = sorted(found.items())
    first, second = np.array(first), np.array(second)
    down, right = first.mean(0) - second.mean(0)
    if abs(right) > abs(down):
        before = (first[:, 1].max() < second[:, 1].min(), first[:, 1].min() > second[:, 1].max())
        relation = "left of" if right < 0 else "right of"
        assert before[int(right > 0)], "not all of a group are on one side"
    else:
        before = (first[:, 0].max() < second[:, 0].min(), first[:, 0].min() > second[:, 0].max())
        relation = "above" if down < 0 else "below"
        assert before[int(down > 0)], "not all of a group are on one side"
    return f" {relation} ".join(words)


@pytest.mark.parametrize("split", SPLITS)
def test_captions_are_true(split):
    seen = set()
    for i in range(120):
        pixels, caption = draw_scene([3, SPLITS.index(split), i], split)
        assert described(pixels) == caption, i
        seen.update(caption.split())
    assert {"left", "right", "above", "below", "a", "two", "three"} <= seen
    assert set(COLOURS) <= seen


def test_another_split_is_told():
    with pytest.raises(ValueError, match="split='dev'"):
        draw_scene(0, "dev")


def test_a_picture_is_described_wrongly_if_it_is_changed():
    pixels, caption = draw_scene(seed=5)
    assert caption == "two black circles right of two blue triangles" == described(pixels)
    assert described(pixels[:, ::-1]) == caption.replace("right", "left")
    assert described(pixels[..., ::-1]) != caption  # red for blue


def test_no_caption_of_two_groups_is_in_two_splits():
    captions = [[draw_scene([0, i], split)[1] for i in range(800)] for split in SPLITS]
    of_one = [{text for text in some if len(text.split()) == 3} for some in captions]
    for one, other in itertools.combinations(zip(captions, of_one, strict=True), 2):
        assert set(one[0]) & set(other[0]) == one[1] & other[1]
    for some, alone in zip(captions, of_one, strict=True):
        assert len(alone) > 80  # of the 120 of one group
        assert 500 < sum(text not in alone for text in some) < 700  # a quarter has one group
    assert len(set(captions[0])) > 600  # and there are many


def test_no_place_and_no_shade_is_as_in_another_scene():
    pictures = {}
    for i in range(3000):
        pixels, caption = draw_scene(i)
        pictures.setdefault(caption, []).append(pixels.astype(int))
    same = [pair for many in pictures.values() for pair in itertools.combinations(many, 2)]
    assert len(same) > 100
    assert min(np.abs(a - b).mean() for a, b in same) > 3


def test_the_same_seed_draws_the_same(tmp_path):
    read = []
    for folder in ("one", "two"):
        builder = Scenes(16, seed=4, data_dir=tmp_path / folder)
        builder.download_and_prepare()
        rows = list(builder.as_dataset("train").as_numpy_iterator())
        read.append([(row["source"].tobytes(), row["targets"][0].decode()) for row in rows])
    assert read[0] == read[1]
    assert len(set(read[0])) == 16
    pixels, caption = draw_scene([4, 0, 7])
    assert read[0][7] == (pixels.tobytes(), caption)
