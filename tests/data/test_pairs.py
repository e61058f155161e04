import gzip

import pytest

from zoo.data import Report, find_splits, read_pairs


def read(paths, **options):
    report = Report()
    return list(read_pairs(paths, report, **options)), report


def test_a_tsv_of_sources_and_targets(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("cat\tK AE T\n read \tR IY D\tR EH D\r\n", encoding="utf-8")
    pairs, report = read([path])
    assert pairs == [
        {"source": "cat", "targets": ["K AE T"]},
        {"source": "read", "targets": ["R IY D", "R EH D"]},
    ]
    assert str(report) == "2 examples"


def test_two_files_side_by_side_gzip_or_not(tmp_path):
    (tmp_path / "train.en").write_text("a dog\na cat\n", encoding="utf-8")
    with gzip.open(tmp_path / "train.de.gz", "wt", encoding="utf-8") as file:
        file.write("ein Hund\neine Katze\n")
    pairs, _ = read(find_splits(tmp_path, "en", "de")["train"])
    assert [pair["targets"] for pair in pairs] == [["ein Hund"], ["eine Katze"]]


def test_bad_lines_are_counted_and_told(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_bytes(b"good\tyes\nno tab\n\tempty\nempty\t\nlong\t" + b"x" * 90 + b"\nb\xff\tok\n")
    pairs, report = read([path], most_characters=50)
    assert pairs == [
        {"source": "good", "targets": ["yes"]},
        {"source": "b\ufffd", "targets": ["ok"]},
    ]
    assert (report.examples, report.skipped) == (2, 4)
    assert report.messages == [
        "train.tsv:2: no tab",
        "train.tsv:3: empty source",
        "train.tsv:4: empty target",
        "train.tsv:5: 90 characters, over 50",
    ]


def test_a_long_list_of_bad_lines_is_cut(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("bad\n" * 25)
    _, report = read([path])
    assert report.skipped == 25
    assert str(report).endswith("train.tsv:10: no tab; and 15 more")


def test_lines_without_partner_are_bad(tmp_path):
    source, target = tmp_path / "train.en", tmp_path / "train.de"
    source.write_text("one\ntwo\nthree\n")
    target.write_text("eins\n")
    pairs, report = read([source, target])
    assert len(pairs) == 1
    assert report.messages == [
        "train.en:2: no such line in the target file",
        "train.en:3: no such line in the target file",
    ]


@pytest.mark.parametrize("name", ["valid", "val", "dev", "validation"])
def test_a_validation_split_has_many_names(tmp_path, name):
    for split in ("train", name):
        (tmp_path / f"{split}.tsv.gz").write_bytes(gzip.compress(b"a\tb\n"))
    assert find_splits(tmp_path)["validation"] == [tmp_path / f"{name}.tsv.gz"]


def test_a_folder_without_training_data_is_told(tmp_path):
    (tmp_path / "train.en").write_text("")
    (tmp_path / "train.fr").write_text("")
    with pytest.raises(FileNotFoundError, match=r"train.en and train.de, .* has train.\{en,fr\}"):
        find_splits(tmp_path, "en", "de")
    with pytest.raises(FileNotFoundError, match="should hold train.tsv"):
        find_splits(tmp_path)
