import html
import re

import numpy as np
import pytest
from matplotlib import image

from zoo.evaluation.heat_map import plot_heat_map


def test_dark_is_where_the_weight_is(tmp_path):
    path = tmp_path / "heat.png"
    weights = np.eye(6)[::-1]
    plot_heat_map(list("abcdef"), list("uvwxyz"), weights, path)
    picture = image.imread(path)[..., :3].mean(-1)
    dark = np.argwhere(picture < 0.35)
    dark = dark[dark[:, 1] < picture.shape[1] * 0.75]  # not the colour bar
    rows, columns = dark[:, 0], dark[:, 1]
    assert np.corrcoef(rows, columns)[0, 1] < -0.8  # the anti-diagonal


@pytest.mark.filterwarnings("ignore:No font is installed")
@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_files_by_their_ending(tmp_path, ending):
    path = tmp_path / f"heat.{ending}"
    rng = np.random.default_rng(0)
    plot_heat_map(["東", "é", "x" * 12] * 10, ["y"] * 30, rng.uniform(size=(30, 30)), path)
    assert path.stat().st_size > 1000


def test_weights_of_another_shape_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"weights.shape=\(2, 3\)"):
        plot_heat_map(["a", "b"], ["c", "d"], np.zeros((2, 3)), tmp_path / "heat.png")


GERMAN = ["\u2581Der", "\u2581Mann", "\u2581fähr", "t", "\u2581Rad", "."]
ENGLISH = ["\u2581The", "\u2581man", "\u2581ri", "des", "."]


def texts_of(svg):
    """The labels of a picture, by the comments that matplotlib leaves in an SVG."""
    return [html.unescape(text) for text in re.findall(r"<!-- (.*?) -->", svg.read_text("utf-8"))]


def test_pieces_are_shown_without_their_marks(tmp_path):
    path = tmp_path / "heat.svg"
    plot_heat_map(GERMAN, ENGLISH, np.full((5, 6), 1 / 6), path)
    texts = texts_of(path)
    assert texts[:6] == ["Der", "Mann", "fähr", "·t", "Rad", "."]
    assert texts[6:11] == ["The", "man", "ri", "·des", "."]


def test_characters_that_the_font_lacks(tmp_path, recwarn):
    """U+2AF7 is not in DejaVu Sans, but in STIX, which matplotlib brings; no font has U+F0000."""
    plot_heat_map(["\u2af7", "größte"], ["$x_1$", "ß"], np.eye(2), tmp_path / "heat.pdf")
    assert not recwarn.list
    plot_heat_map(["\U000f0000"], ["a"], np.eye(1), tmp_path / "heat.png")
    (note,) = recwarn.list
    assert "No font is installed that has \U000f0000: the picture shows boxes" in str(note.message)


def test_a_page_holds_thirty_tokens(tmp_path):
    path = tmp_path / "heat.svg"
    words = ["Straßenbahnhaltestelle"] * 30
    plot_heat_map(words, words, np.eye(30), path)
    width, height = re.search(r'width="(.*?)pt" height="(.*?)pt"', path.read_text()).groups()
    assert float(width) < 11 * 72
    assert float(height) < 11 * 72
