"""The recipe of SCAN on commands of a few words, from its files to the table and a SavedModel."""

import itertools

import pytest

from recipes import scan
from zoo.serving import SavedModel
from zoo.training.export_run import export_runs

TIMES = {"": 1, " twice": 2, " thrice": 3}


def examples():
    """All of "VERB TIMES and VERB TIMES" with three verbs: a line of SCAN each."""
    phrases = list(itertools.product(("walk", "run", "jump"), TIMES))
    for (one, times), (other, more) in itertools.product(phrases, phrases):
        actions = [f"I_{one.upper()}"] * TIMES[times] + [f"I_{other.upper()}"] * TIMES[more]
        yield f"IN: {one}{times} and {other}{more} OUT: {' '.join(actions)}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, lines = tmp_path_factory.mktemp("scan"), list(examples())
    for split in ("simple", "length"):
        (folder / f"tasks_train_{split}.txt").write_text("".join(lines[::2] + lines[1::4]))
        (folder / f"tasks_test_{split}.txt").write_text("".join(lines[3::4]))
    return folder


def config(folder, **options):
    settings = {"units": 32, "dropout": 0.0, "epochs": 24, "num_buckets": 1, "max_length": 10}
    settings |= {"batch_tokens": 64, "learning_rate": 1e-2, "warmup_steps": 10, "repeats": 1}
    return scan.Config(data=str(folder), output=str(folder / "runs"), **settings | options)


def test_both_models_are_trained_and_compared(folder, capsys):
    scores = scan.train(config(folder, split="simple"))
    assert list(scores) == [("lstm", "simple"), ("attention", "simple")]
    told = capsys.readouterr().out.splitlines()
    assert told[-3].split() == ["simple"]
    assert told[-2].startswith("without attention ")
    assert told[-1].startswith("with attention ")
    lines = (folder / "tasks_test_simple.txt").read_text().splitlines()
    tests = [line.removeprefix("IN: ").split(" OUT: ") for line in lines]
    run = folder / "runs" / "simple" / "attention" / "1"
    served = SavedModel(export_runs([run], folder / "saved" / "attention"))
    answers = served("serving_default", text=[command for command, _ in tests])["text"]
    right = [a.decode() == actions for a, (_, actions) in zip(answers, tests, strict=True)]
    assert float(told[-1].split()[-1]) == round(100 * sum(right) / len(tests), 1) > 0


def test_the_table_has_mean_and_deviation():
    scores = {("lstm", "length"): [10.0, 12.0, 17.0], ("lstm", "simple"): [99.5]}
    head, row = scan.table(scores, ["simple", "length"], ["lstm"]).splitlines()
    assert head.split() == ["simple", "length"]
    assert row.split() == ["without", "attention", "99.5", "13.0", "±", "3.6"]
    assert head.index("length") + len("length") == len(row)  # columns are as wide


def test_some_commands_are_held_out(folder):
    train = scan.load_commands(folder, "train", "simple")
    texts, dev = scan.hold_out(train)
    assert len(dev.sources) == dev.report.examples == len(train.sources) // 4  # few as they are
    both = zip([*texts.sources, *dev.sources], [*texts.targets, *dev.targets], strict=True)
    assert sorted(both) == sorted(zip(train.sources, train.targets, strict=True))
    assert scan.hold_out(train) == [texts, dev]


@pytest.mark.slow
def test_it_learns_what_is_drawn_at_random(folder):
    options = {"split": "length", "model": "attention", "units": 64, "epochs": 60}
    scores = scan.train(config(folder, **options))
    assert scores["attention", "length"][0] >= 90
