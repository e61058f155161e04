"""The recipe of the bottleneck on made-up captions: texts, table and picture."""

import json
import random

import pytest

from recipes import bottleneck
from zoo.data.examples import Examples
from zoo.data.pairs import Report

NUMBERS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf"}
NUMBERS |= {"six": "sechs", "seven": "sieben", "eight": "acht", "nine": "neun", "ten": "zehn"}


def captions(count):
    """One to ten words, each of which has a translation: shorter than most that are joined."""
    rng = random.Random(0)
    lines = [rng.choices(list(NUMBERS), k=rng.randint(1, 10)) for _ in range(count)]
    sources = [" ".join(line) for line in lines]
    targets = [[" ".join(NUMBERS[word] for word in line)] for line in lines]
    return Examples(sources, targets, Report(examples=count), "none")


def test_captions_are_joined():
    alone = captions(200)
    joined = bottleneck.join(alone, times=3)
    lengths = [len(source.split()) for source in joined.sources]
    assert max(lengths) <= bottleneck.LONGEST
    assert min(lengths) < 10
    assert sum(length > 20 for length in lengths) > len(lengths) / 4
    assert joined.report.examples == len(joined.sources)
    # Sources and targets stay together, and a caption is in three texts.
    for source, (target,) in zip(joined.sources, joined.targets, strict=True):
        assert target == " ".join(NUMBERS[word] for word in source.split())
    assert sum(lengths) == 3 * sum(len(source.split()) for source in alone.sources)
    assert bottleneck.join(alone, times=3) == joined  # the same each time


def test_no_text_is_longer_than_the_longest():
    long = Examples(["one " * 40] * 9, [["eins"]] * 9, Report(examples=9), "none")
    joined = bottleneck.join(long, times=2)
    assert {len(source.split()) for source in joined.sources} == {40}
    assert len(joined.sources) == 2 * 9  # what finds no room is in another text


@pytest.mark.slow
def test_both_models_are_trained_and_compared(tmp_path, capsys):
    (tmp_path / "toy").mkdir()
    for split, count in (("train", 60), ("val", 20)):
        some = captions(count)
        lines = [f"{s}\t{t}\n" for s, (t,) in zip(some.sources, some.targets, strict=True)]
        (tmp_path / "toy" / f"{split}.tsv").write_text("".join(lines), encoding="utf-8")
    config = bottleneck.Config(
        data=str(tmp_path / "toy"), output=str(tmp_path / "run"), plot=str(tmp_path / "plot.svg"),
        units=8, vocabulary_size=32, beam_width=1, joins=1,
        epochs=1, batch_tokens=512, num_buckets=1, max_length=50,
    )  # fmt: skip
    curves = bottleneck.train(config)
    lengths = [len(s.split()) for s in bottleneck.join(captions(20), 1).sources]
    filled = sum(any(low <= n <= high for n in lengths) for low, high in bottleneck.BUCKETS)
    assert set(curves) == {"seq2seq", "bahdanau"}
    assert all(len(scores) == filled for scores in curves.values())
    rows = capsys.readouterr().out.split("words of the source")[1].splitlines()[1 : filled + 1]
    assert sum(int(row.split()[3]) for row in rows) == len(lengths)
    assert "without attention" in (tmp_path / "plot.svg").read_text()
    models = [json.loads((tmp_path / "run" / m / "run.json").read_text()) for m in curves]
    assert [about["config"]["model"] for about in models] == ["seq2seq", "bahdanau"]
