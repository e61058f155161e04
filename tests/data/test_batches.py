import numpy as np
import pytest

from zoo.data import Batches

RNG = np.random.default_rng(0)
SOURCES = [RNG.integers(4, 20, size=n).tolist() for n in RNG.integers(1, 40, size=500)]
TARGETS = [RNG.integers(4, 20, size=n).tolist() for n in RNG.integers(1, 40, size=500)]


def pairs_of(dataset):
    """The examples that come out of an epoch, padding and empty rows taken off."""
    pairs = []
    for batch in dataset.as_numpy_iterator():
        for source, target in zip(batch["source"], batch["target"], strict=True):
            if target[0] == 0:
                assert (source == 0).all()
                assert (target == 0).all()
                continue
            target = target[target > 0].tolist()
            assert (target[0], target[-1]) == (1, 2)
            pairs.append((source[source > 0].tolist(), target[1:-1]))
    return pairs


def test_every_example_comes_once_an_epoch():
    batches = Batches(SOURCES, TARGETS, batch_tokens=256)
    expected = sorted(zip(SOURCES, TARGETS, strict=True))
    first, second = pairs_of(batches.epoch(0)), pairs_of(batches.epoch(1))
    assert sorted(first) == sorted(second) == expected
    assert first != second


def test_few_shapes_of_about_equal_size():
    batches = Batches(SOURCES, TARGETS, batch_tokens=256, num_buckets=5)
    shapes = {
        (*batch["source"].shape, batch["target"].shape[1])
        for batch in batches.epoch(0).as_numpy_iterator()
    }
    assert len(shapes) <= 5
    for rows, *widths in shapes:
        longer = max(widths[0], widths[1] - 1)  # the start is not read twice
        assert 256 - longer < rows * longer <= 256
    padding = np.mean([(b["source"] == 0).mean() for b in batches.epoch(0).as_numpy_iterator()])
    one = Batches(SOURCES, TARGETS, batch_tokens=256, num_buckets=1)
    assert padding < np.mean([(b["source"] == 0).mean() for b in one.epoch(0).as_numpy_iterator()])


def test_a_side_is_as_wide_as_its_own_longest():
    """Short summaries of long texts are not padded to the texts' length."""
    sources, targets = [[4] * n for n in range(10, 50)], [[5] * (n % 7) for n in range(10, 50)]
    batches = Batches(sources, targets, batch_tokens=200, num_buckets=4)
    for batch in batches.epoch(0).as_numpy_iterator():
        assert batch["target"].shape[1] == 6 + 2  # of each bucket, with start and end
        assert batch["source"].shape[1] >= 10
    batches = Batches(targets, sources, batch_tokens=200, num_buckets=4)
    assert {batch["source"].shape[1] for batch in batches.epoch(0).as_numpy_iterator()} == {6}
    assert sorted(pairs_of(batches.epoch(0))) == sorted(zip(targets, sources, strict=True))


def test_an_epoch_goes_on_where_it_stopped():
    def arrays(dataset):
        return [(b["source"].tolist(), b["target"].tolist()) for b in dataset.as_numpy_iterator()]

    batches = Batches(SOURCES, TARGETS, batch_tokens=256, seed=3)
    whole = arrays(batches.epoch(2))
    assert len(whole) == len(batches)
    again = Batches(SOURCES, TARGETS, batch_tokens=256, seed=3)
    assert arrays(again.epoch(2, first=7)) == whole[7:]
    assert arrays(again.epoch(2, first=len(batches))) == []


def test_no_thread_is_waited_for_when_an_epoch_is_over():
    """That of autotuning sleeps for as long again as the epoch took."""
    batches = Batches(SOURCES, TARGETS, batch_tokens=256)
    assert batches.epoch(0).options().autotune.enabled is False


def test_too_long_examples_are_counted():
    batches = Batches(SOURCES, TARGETS, max_length=20)
    expected = [
        p for p in zip(SOURCES, TARGETS, strict=True) if max(len(p[0]), len(p[1]) + 1) <= 20
    ]
    assert batches.too_long == 500 - len(expected)
    assert sorted(pairs_of(batches.epoch(0))) == sorted(expected)


def test_long_sources_are_cut():
    batches = Batches(SOURCES, TARGETS, max_length=20, cut_sources=True)
    pairs = zip(SOURCES, TARGETS, strict=True)
    expected = [(source[:20], target) for source, target in pairs if len(target) < 20]
    assert batches.too_long == 500 - len(expected)
    assert batches.cut == sum(len(source) > 20 for source in SOURCES)
    assert sorted(pairs_of(batches.epoch(0))) == sorted(expected)
    again = Batches(
        SOURCES, TARGETS, max_length=20, cut_sources=True, resample=lambda _: (SOURCES, TARGETS)
    )
    assert sorted(pairs_of(again.epoch(0))) == sorted(expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Batches(SOURCES, TARGETS[:-1]), "500 and 499"),
        (lambda: Batches([[4] * 30], [[4]], max_length=20), "1 examples, the shortest of 30"),
        (lambda: Batches([], []), "0 examples"),
    ],
)
def test_errors_say_what_was_received(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_other_ids_have_few_shapes_too():
    """Sides of different lengths, whose pieces are now and then more than usual."""

    def longer(epoch):
        rng = np.random.default_rng(epoch)
        return [[ids + [4] * rng.integers(3) for ids in side] for side in (SOURCES, shorter)]

    shorter = [ids[: len(ids) // 2] for ids in TARGETS]
    batches = Batches(SOURCES, shorter, batch_tokens=128, num_buckets=4, resample=longer)
    shapes = {
        tuple(array.shape for array in batch.values())
        for epoch in range(4)
        for batch in batches.epoch(epoch).as_numpy_iterator()
    }
    assert len(shapes) <= 4 * 4  # of 444 batches


def test_other_ids_for_each_epoch():
    def twice(epoch):  # what is longer than its bucket is not cut off
        return [s + [20 + epoch] * len(s) for s in SOURCES], TARGETS

    batches = Batches(SOURCES, TARGETS, batch_tokens=256, resample=twice)
    for epoch in (0, 1):
        expected = sorted(zip(*twice(epoch), strict=True))
        assert sorted(pairs_of(batches.epoch(epoch))) == expected
    # An epoch that goes on in the middle has the rest of the same batches.
    rest = pairs_of(batches.epoch(1, first=3))
    assert pairs_of(batches.epoch(1))[-len(rest) :] == rest
    assert len(list(batches.epoch(1))) == len(batches)
