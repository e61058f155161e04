"""Reading pairs of source and target from text files, with a report on what was left out."""

import dataclasses
import itertools
import json
import re

from zoo.data.lines import read_lines

MOST_CHARACTERS = 5000  # of a text; what is longer is hardly a text


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


def tsv_fields(line):
    """The fields of a line between tabs: source, target, perhaps more targets."""
    fields = [field.strip() for field in line.split("\t")]
    if len(fields) < 2:
        raise ValueError("no tab")
    return fields


def json_fields(source, target):
    """A function that gives the fields of a line of JSON: the texts under two keys.

    Under the key of the target may also be a list of texts, all of which are right.
    """

    def fields(line):
        try:
            example = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"no JSON, {error.msg}") from error
        if not isinstance(example, dict):
            raise ValueError("no JSON object")
        for key in (source, target):
            if key not in example:
                raise ValueError(f"no key {key!r}, but {', '.join(sorted(example))}")
        targets = example[target] if isinstance(example[target], list) else [example[target]]
        texts = [example[source], *targets]
        if len(texts) < 2 or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{source!r} and {target!r} are not all texts")
        return [text.strip() for text in texts]

    return fields


def read_pairs(paths, report, most_characters=MOST_CHARACTERS, fields=tsv_fields):
    """Yields {"source": str, "targets": [str, ...]} for each good line.

    Arguments:
        paths: one file of "source TAB target [TAB target ...]" or of what `fields` reads, or a file
            of sources and a file of targets, line by line. Files may be gzip. Bytes that are no
            UTF-8 become U+FFFD.
        report: a Report, in which bad lines are counted and told.
        most_characters: int; a longer side makes a bad line.
        fields: a function of a line of a single file that gives [source, target, ...], or raises a
            ValueError that says what is wrong with it.
    """
    if len(paths) == 1:
        lines = read_lines(*paths)
    else:
        lines, fields = itertools.zip_longest(*map(read_lines, paths)), _both_sides
    for number, line in enumerate(lines, 1):
        try:
            source, *targets = fields(line)
            _check(source, targets, most_characters)
        except ValueError as error:
            report.skip(f"{paths[0].name}:{number}", str(error))
            continue
        report.examples += 1
        yield {"source": source, "targets": targets}


def _both_sides(lines):
    for line, name in zip(lines, ("source", "target"), strict=True):
        if line is None:
            raise ValueError(f"no such line in the {name} file")
    return [line.strip() for line in lines]


def _check(source, targets, most_characters):
    if not source:
        raise ValueError("empty source")
    if not all(targets):
        raise ValueError("empty target")
    longest = max(len(text) for text in (source, *targets))
    if longest > most_characters:
        raise ValueError(f"{longest} characters, over {most_characters}")


JSON_LINES = ".jsonl"  # the ending of files with an object on each line

# The names under which people keep their splits.
SPLIT_NAMES = {
    "train": ("train",),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "test_2016_flickr"),
}


def find_splits(folder, source=None, target=None, train=None):
    """The files of each split in a folder: {"train": [path], ...} or {"train": [path, path], ...}.

    Looks for train.tsv, or, of a source and a target, for train.jsonl, or for train.SOURCE and
    train.TARGET, also with .gz behind; likewise for validation (or valid, val, dev) and test. The
    file of the training may be given.
    """
    files = {file.name.removesuffix(".gz"): file for file in sorted(folder.iterdir())}
    found = {"train": [train]} if train else {}
    for split, names in SPLIT_NAMES.items():
        for name in names:
            pair = [f"{name}.{source}", f"{name}.{target}"]
            for wanted in ([f"{name}{JSON_LINES}"], pair) if source else ([f"{name}.tsv"],):
                if split not in found and all(file in files for file in wanted):
                    found[split] = [files[file] for file in wanted]
    if "train" not in found:
        endings = sorted({m[1] for m in map(re.compile(r"train\.(.+)").fullmatch, files) if m})
        named = f"train.{source} and train.{target}, or train{JSON_LINES} with these keys"
        wanted = named if source else "train.tsv"
        if f"train{JSON_LINES}" in files:
            raise ValueError(
                f"{folder} has train{JSON_LINES}: name the keys of its texts, source and target. "
                f"Received: source={source}, target={target}"
            )
        hint = f"it has train.{{{','.join(endings)}}}" if endings else "it has no train.*"
        raise FileNotFoundError(f"{folder} should hold {wanted} (or with .gz behind), but {hint}")
    return found
