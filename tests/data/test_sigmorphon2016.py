"""Inflections in the format of SIGMORPHON 2016."""

import gzip

import pytest

from tests.tools import SHARED_DATA
from zoo.data import load_inflections


def write(path, *lines):
    text = "".join("\t".join(line) + "\n" for line in lines)
    (gzip.open if path.suffix == ".gz" else open)(path, "wt", encoding="utf-8").write(text)


@pytest.mark.parametrize(
    ("language", "names"),
    [
        ("finnish", ("finnish-train.tsv.gz", "finnish-dev.tsv.gz")),
        ("finnish", ("data/finnish-task1-train", "data/finnish-task1-dev")),  # the repository
        (None, ("train.tsv", "dev.tsv")),
    ],
)
def test_a_language_is_found_by_its_name(tmp_path, language, names):
    (tmp_path / "data").mkdir()
    write(tmp_path / names[0], ("talo", "pos=N,case=GEN,num=SG", "talon"))
    write(tmp_path / names[1], ("New York", "pos=N,num=PL", "New Yorks"), ("a", "x=1", "aa"))
    write(tmp_path / "german-train.tsv", ("Haus", "pos=N", "Haus"))
    train, dev = (
        load_inflections(tmp_path, split, language, cache=tmp_path / "cache")
        for split in ("train", "validation")
    )
    assert (train.sources, train.targets) == (["talo pos=N,case=GEN,num=SG"], [["talon"]])
    assert (dev.sources, dev.targets) == (
        ["New York pos=N,num=PL", "a x=1"],
        [["New Yorks"], ["aa"]],
    )
    assert ("CC BY-SA" in train.licence) == (language is not None)  # data of one's own are not


def test_bad_lines_are_told_with_their_place(tmp_path):
    good = ("talo", "pos=N", "talo")
    bad = [("talo", "talon"), ("talo", "N;GEN", "talon"), ("", "pos=N", "x"), ("x", "pos=N", "")]
    bad += [("talo", "pos=N,=SG", "talon"), ("talo", "pos=N", "talon", "talon")]
    write(tmp_path / "train.tsv", good, *bad)
    examples = load_inflections(tmp_path, "train", cache=tmp_path / "cache")
    assert examples.sources == ["talo pos=N"]
    assert examples.report.messages == [
        "train.tsv:2: 2 fields between tabs, not lemma, features and form",
        "train.tsv:3: features must be like pos=N,num=PL, not 'N;GEN'",
        "train.tsv:4: empty source",
        "train.tsv:5: empty target",
        "train.tsv:6: features must be like pos=N,num=PL, not '=SG'",
        "train.tsv:7: 4 fields between tabs, not lemma, features and form",
    ]


def test_a_file_of_another_format_is_an_error(tmp_path):
    write(tmp_path / "train.tsv", ("cat", "K AE T"))
    with pytest.raises(ValueError, match="no good line for train: .*train.tsv:1: 2 fields"):
        load_inflections(tmp_path, "train", cache=tmp_path / "cache")


def test_a_language_that_is_not_there(tmp_path):
    write(tmp_path / "finnish-task1-train", ("talo", "pos=N", "talo"))
    write(tmp_path / "german-train.tsv.gz", ("Haus", "pos=N", "Haus"))
    with pytest.raises(FileNotFoundError, match="turkish-train.tsv .*, but .* finnish, german"):
        load_inflections(tmp_path, "train", "turkish", cache=tmp_path / "cache")
    with pytest.raises(FileNotFoundError, match="hold files for validation too"):
        load_inflections(tmp_path, "validation", "finnish", cache=tmp_path / "cache")
    with pytest.raises(FileNotFoundError, match="git clone .*sigmorphon2016.* nowhere"):
        load_inflections("nowhere", "train", "finnish")


@pytest.mark.parametrize(
    ("language", "train", "dev"), [("finnish", 12693, 1598), ("navajo", 6012, 1452)]
)
def test_the_real_data(tmp_path, language, train, dev):
    folder = SHARED_DATA / "sigmorphon2016"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not here")
    for split, count in (("train", train), ("validation", dev)):
        examples = load_inflections(folder, split, language, cache=tmp_path)
        assert str(examples.report) == f"{count} examples"
