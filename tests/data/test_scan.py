"""Commands and actions of SCAN."""

import pytest
from tensorflow_datasets.core.download import downloader

from tests.tools import SHARED_DATA
from zoo.data import load_commands


def test_its_files_are_found_as_it_has_them(tmp_path):
    for split, line in (
        ("train", "IN: jump OUT: I_JUMP"),
        ("test", "IN: turn left and jump OUT: I_TURN_LEFT I_JUMP"),
    ):
        folder = tmp_path / "SCAN" / "add_prim_split"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"tasks_{split}_addprim_jump.txt").write_text(line + "\n")
    train, test = (
        load_commands(tmp_path / "SCAN", split, "add-jump", cache=tmp_path / "cache")
        for split in ("train", "test")
    )
    assert (train.sources, train.targets) == (["jump"], [["I_JUMP"]])
    assert (test.sources, test.targets) == (["turn left and jump"], [["I_TURN_LEFT I_JUMP"]])
    with pytest.raises(FileNotFoundError, match="SCAN should hold tasks_train_length.txt"):
        load_commands(tmp_path / "SCAN", "train", "length")
    with pytest.raises(ValueError, match="must be one of .*simple.* Received: variant='long'"):
        load_commands(tmp_path / "SCAN", "train", "long")


def test_bad_lines_are_told_with_their_place(tmp_path):
    lines = ["IN: run OUT: I_RUN", "run\tI_RUN", "IN: run", "IN: OUT: I_RUN", "IN: run OUT:"]
    (tmp_path / "tasks_train_simple.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "tasks_test_simple.txt").write_text("no line of SCAN\n")
    with pytest.raises(ValueError, match="no good line for test: .*tasks_test_simple.txt:1: not"):
        load_commands(tmp_path, "train", "simple", cache=tmp_path / "cache")
    (tmp_path / "tasks_test_simple.txt").write_text("IN: run OUT: I_RUN\n")
    examples = load_commands(tmp_path, "train", "simple", cache=tmp_path / "cache")
    assert examples.sources == ["run"]
    assert examples.report.messages == [
        "tasks_train_simple.txt:2: not like IN: command OUT: ACTIONS",
        "tasks_train_simple.txt:3: not like IN: command OUT: ACTIONS",
        "tasks_train_simple.txt:4: empty source",
        "tasks_train_simple.txt:5: empty target",
    ]


def test_without_a_network_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://localhost:9")  # nobody listens
    monkeypatch.setattr(downloader, "MAX_RETRIES", 0)  # it would try for minutes
    with pytest.raises(ConnectionError, match="tfds:scan/length cannot be downloaded. Give the"):
        load_commands("tfds:scan", "train", "length", cache=tmp_path)


@pytest.mark.parametrize(
    ("variant", "train", "test"),
    # Lake & Baroni 2018: 20,910 commands; of the verb alone, a tenth of the training is repeats
    [("simple", 16728, 4182), ("length", 16990, 3920), ("add-jump", 14670, 7706)],
)
def test_the_real_data(tmp_path, variant, train, test):
    folder = SHARED_DATA / "scan"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not here")
    for split, count in (("train", train), ("test", test)):
        examples = load_commands(folder, split, variant, cache=tmp_path)
        assert str(examples.report) == f"{count} examples"
        lengths = [len(actions.split()) for (actions,) in examples.targets]
        if variant == "length":
            assert (max(lengths) <= 22) if split == "train" else (min(lengths) >= 24)
