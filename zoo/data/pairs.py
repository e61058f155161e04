"""Reading pairs of source and target from text files, with a report on what was left out."""

import dataclasses
import itertools
import re

from zoo.data.lines import read_lines


@dataclasses.dataclass
class Report:
    """What became of the lines of a file."""

    examples: int = 0
    skipped: int = 0
    messages: list = dataclasses.field(default_factory=list)  # the first ten: where and why

    def skip(self, where, why):
        self.skipped += 1
        if len(self.messages) < 10:
            self.messages.append(f"{where}: {why}")

    def __str__(self):
        if not self.skipped:
            return f"{self.examples} examples"
        more = self.skipped - len(self.messages)
        listed = "; ".join(self.messages) + (f"; and {more} more" if more else "")
        return f"{self.examples} examples, {self.skipped} lines skipped: {listed}"


def read_pairs(paths, report, most_characters=5000):
    """Yields {"source": str, "targets": [str, ...]} for each good line.

    Arguments:
        paths: one TSV file of "source TAB target [TAB target ...]", or a file of sources and a file
            of targets, line by line. Files may be gzip. Bytes that are no UTF-8 become U+FFFD.
        report: a Report, in which bad lines are counted and told.
        most_characters: int; a longer side makes a bad line.
    """
    lines = _tsv_lines(*paths) if len(paths) == 1 else _side_by_side(*paths)
    for number, fields in enumerate(lines, 1):
        problem = _problem(fields, most_characters)
        if problem:
            report.skip(f"{paths[0].name}:{number}", problem)
        else:
            report.examples += 1
            yield {"source": fields[0], "targets": fields[1:]}


def _problem(fields, most_characters):
    if len(fields) < 2:
        return "no tab"
    if None in fields:
        return "no such line in the " + ("source file" if fields[0] is None else "target file")
    if not fields[0]:
        return "empty source"
    if not all(fields[1:]):
        return "empty target"
    longest = max(len(field) for field in fields)
    return f"{longest} characters, over {most_characters}" if longest > most_characters else None


def _tsv_lines(path):
    for line in read_lines(path):
        yield [field.strip() for field in line.split("\t")]


def _side_by_side(source, target):
    for pair in itertools.zip_longest(read_lines(source), read_lines(target)):
        yield [None if line is None else line.strip() for line in pair]


# The names under which people keep their splits.
SPLIT_NAMES = {
    "train": ("train",),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "test_2016_flickr"),
}


def find_splits(folder, source=None, target=None):
    """The files of each split in a folder: {"train": [path], ...} or {"train": [path, path], ...}.

    Looks for train.tsv, or for train.SOURCE and train.TARGET, also with .gz behind; likewise for
    validation (or valid, val, dev) and test.
    """
    files = {file.name.removesuffix(".gz"): file for file in sorted(folder.iterdir())}
    found = {}
    for split, names in SPLIT_NAMES.items():
        for name in names:
            wanted = [f"{name}.{source}", f"{name}.{target}"] if source else [f"{name}.tsv"]
            if all(file in files for file in wanted):
                found[split] = [files[file] for file in wanted]
                break
    if "train" not in found:
        endings = sorted({m[1] for m in map(re.compile(r"train\.(.+)").fullmatch, files) if m})
        wanted = f"train.{source} and train.{target}" if source else "train.tsv"
        hint = f"it has train.{{{','.join(endings)}}}" if endings else "it has no train.*"
        raise FileNotFoundError(f"{folder} should hold {wanted} (or with .gz behind), but {hint}")
    return found
