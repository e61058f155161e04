"""Whatever a disk does to a checkpoint, it is told, and another one serves."""

import keras
import numpy as np
import pytest

from zoo.training.checkpoints import Checkpoints


@pytest.fixture
def checkpoints(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    return Checkpoints(tmp_path, keep=2, average=3)


def variables(value):
    return [keras.Variable(np.full((2, 3), value)), keras.Variable(value)]


def test_damage_of_any_byte_is_told(checkpoints):
    checkpoints.save("best", variables(1.0), epoch=1)
    path = checkpoints.path / "best.npz"
    good = path.read_bytes()
    damaged = [good[:size] for size in range(len(good))]
    for i in range(len(good)):
        damaged += [good[:i] + bytes([good[i] ^ 1 << bit]) + good[i + 1 :] for bit in range(8)]
    told = []
    for content in damaged:
        path.write_bytes(content)
        try:  # some bytes say nothing, such as the time of writing
            checkpoints.read("best")
        except ValueError as error:
            told.append(str(error))
    assert all(text.startswith(f"{path} is damaged: ") for text in told)
    assert len(told) > 0.7 * len(damaged)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        checkpoints.read("best")


def test_an_epoch_whose_end_is_damaged_is_ended_once_more(checkpoints):
    checkpoints.save_state(7, variables(1.0), epoch=0, batch=7)
    checkpoints.change_state(7, epoch=1, batch=0)
    assert checkpoints.read_state()[1] == {"epoch": 1, "batch": 0}
    note = checkpoints.path / "state-00000007.json"
    note.write_bytes(note.read_bytes()[:5])
    assert checkpoints.read_state()[1] == {"epoch": 0, "batch": 7}


def test_the_mean_leaves_a_damaged_epoch_out(checkpoints, capsys):
    for epoch in (1, 2, 3, 4):
        checkpoints.save_epoch(epoch, variables(2.0**epoch))
    assert [array.max() for array in checkpoints.average(4)] == pytest.approx([28 / 3] * 2)
    assert capsys.readouterr().err == ""
    paths = [checkpoints.path / f"epoch-{epoch}.npz" for epoch in (3, 4)]
    paths[0].write_bytes(paths[0].read_bytes()[:100])
    assert [array.max() for array in checkpoints.average(4)] == [
        10,
        10,
    ]  # the second and the fourth
    assert capsys.readouterr().err.startswith(f"zoo: {paths[0]} is damaged: ")
    paths[1].write_bytes(b"")
    with pytest.raises(ValueError, match="epoch-4.npz is damaged"):
        checkpoints.average(4)
