import numpy as np
import pytest

from zoo.data import Windows

TEXT = np.random.default_rng(0).integers(1, 50, size=203)


def rows_of(windows, epoch, first=0):
    """The rows of an epoch's batches, without padding, batch by batch."""
    batches = [batch["target"].numpy() for batch in windows.epoch(epoch, first)]
    return [[row[row != 0].tolist() for row in batch] for batch in batches]


@pytest.mark.parametrize("epoch", range(6))
@pytest.mark.parametrize(("width", "batch_tokens"), [(10, 40), (7, 7), (300, 50), (1, 64)])
def test_each_token_is_predicted_once(width, batch_tokens, epoch):
    windows = Windows(TEXT, width, batch_tokens)
    batches = rows_of(windows, epoch)
    assert len(batches) == len(windows)
    rows = [row for batch in batches for row in batch if row]
    assert all(2 <= len(row) <= width + 1 for row in rows)
    # Put in the order of the text, a row begins with the token that the one before ended with.
    left = {tuple(row): 0 for row in rows}
    for row in rows:
        left[tuple(row)] += 1
    for first, last in windows.plan(epoch):
        left[tuple(TEXT[first : last + 1].tolist())] -= 1
    assert not any(left.values())
    plan = windows.plan(epoch)
    assert plan[0, 0] == 0
    assert plan[-1, 1] == len(TEXT) - 1
    assert (plan[1:, 0] == plan[:-1, 1]).all()


def test_epochs_differ_and_repeat():
    windows, again = Windows(TEXT, 10, 40, seed=3), Windows(TEXT, 10, 40, seed=3)
    first, second = rows_of(windows, 0), rows_of(windows, 1)
    assert rows_of(again, 0) == first != second
    assert rows_of(again, 1, first=2) == second[2:]
    assert len({windows.plan(epoch)[0, 1] for epoch in range(20)}) > 5  # where the first one ends
    assert rows_of(Windows(TEXT, 10, 40, seed=4), 0) != first


def test_all_batches_have_one_shape():
    shapes = {tuple(batch["target"].shape) for e in range(3) for batch in Windows(TEXT, 9).epoch(e)}
    assert shapes == {(4096 // 9, 10)}


def test_a_fingerprint_tells_texts_and_settings_apart():
    windows = [
        Windows(TEXT, 10),
        Windows(TEXT[1:], 10),
        Windows(TEXT, 9),
        Windows(TEXT, 10, seed=1),
    ]
    assert len({one.fingerprint for one in windows}) == 4
    assert Windows(list(TEXT), 10).fingerprint == windows[0].fingerprint


@pytest.mark.parametrize(
    ("tokens", "width", "message"),
    [
        ([5], 4, r"two at least.* shape \(1,\)"),
        ([5, 0, 6], 4, "1 of them 0"),
        ([5, 6], 0, "width=0"),
    ],
)
def test_errors(tokens, width, message):
    with pytest.raises(ValueError, match=message):
        Windows(tokens, width)
