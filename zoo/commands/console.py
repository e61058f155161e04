"""What the commands have in common: their arguments, lines of files, what they print."""

import itertools
import json
import pathlib
import sys
from typing import Annotated

import tyro

Path = Annotated[str, tyro.conf.arg(metavar="PATH")]
SavedModelPath = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SAVED_MODEL")]


def open_model(path):
    """The SavedModel, without what the command line need not wait for before it."""
    from zoo.serving import SavedModel

    return SavedModel(path)


def standard_input():
    """Its lines, as they come."""
    from zoo.data.lines import decode_lines

    if sys.stdin.isatty():
        print("Reading lines from the terminal; Ctrl-D ends.", file=sys.stderr)
    yield from decode_lines(sys.stdin.buffer)


def batches(lines, size=64):
    """Lists of lines, each as soon as it is whole."""
    lines = iter(lines)
    return iter(lambda: list(itertools.islice(lines, size)), [])


def lines_of(path):
    """The lines of a file, which is opened at once, as they are needed; .gz is read too."""
    from zoo.data.lines import read_lines

    return read_lines(pathlib.Path(path))


def all_lines(path):
    """The lines of a file, which has some."""
    lines = list(lines_of(path))
    if not lines:
        raise ValueError(f"{path} is empty")
    return lines


def same_length(source, lines, path):
    """The lines of a file that stand beside those of `source`."""
    others = all_lines(path)
    if len(others) != len(lines):
        raise ValueError(
            f"{path} must have as many lines as {source}. Received: {len(others)} and {len(lines)}"
        )
    return others


def print_json(data):
    """A line of JSON."""
    print(json.dumps(data, ensure_ascii=False), flush=True)


def tell(text):
    """Progress, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
