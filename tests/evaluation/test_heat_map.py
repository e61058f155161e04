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


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_files_by_their_ending(tmp_path, ending):
    path = tmp_path / f"heat.{ending}"
    rng = np.random.default_rng(0)
    plot_heat_map(["東", "é", "x" * 12] * 10, ["y"] * 30, rng.uniform(size=(30, 30)), path)
    assert path.stat().st_size > 1000


def test_weights_of_another_shape_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"weights.shape=\(2, 3\)"):
        plot_heat_map(["a", "b"], ["c", "d"], np.zeros((2, 3)), tmp_path / "heat.png")
