import pathlib

from zoo.data.builders import PairsBuilder, config_of
from zoo.data.examples import load_examples, read_split

REPOSITORY = "https://github.com/brendenlake/SCAN"
# The names of its four splits here, in its files, and in tensorflow-datasets.
SPLITS = {
    "simple": "simple",
    "length": "length",
    "add-jump": "addprim_jump",
    "turn-left": "addprim_turn_left",
}


class Scan(PairsBuilder, skip_registration=True):
    """SCAN: commands in simple English, and the actions that they stand for (Lake & Baroni 2018).

    Each line is "IN: jump twice OUT: I_JUMP I_JUMP". Its splits for training and test differ in a
    way of their own: at random ("simple"), by length, or by what is known of a word.
    """

    name = "scan"

    def __init__(self, folder, variant, **kwargs):
        self.folder = folder
        self.files = _find(pathlib.Path(folder), SPLITS[variant])
        super().__init__(config=config_of(variant, self.files), **kwargs)

    def _info(self):
        return self._pairs_info(
            description=self.__doc__,
            homepage=REPOSITORY,
            license="BSD",
        )

    def _splits(self, dl_manager):
        return self.files

    @staticmethod
    def _fields(line):
        before, _, rest = line.partition("IN:")
        command, out, actions = rest.partition("OUT:")
        if before.strip() or not out:
            raise ValueError("not like IN: command OUT: ACTIONS")
        return [command.strip(), actions.strip()]


def load_commands(data, split, variant, cache=None):
    """Reads SCAN's commands and actions into memory, as `Examples`.

    Arguments:
        data: a folder with its files, or some folders up from them; or "tfds:scan", which
            tensorflow-datasets downloads.
        split: "train" or "test".
        variant: "simple", "length", "add-jump" or "turn-left": how training and test differ.
        cache: a folder for prepared data, that of tensorflow-datasets by default.

    Example:

    ```python
    import pathlib, tempfile
    from zoo.data import load_commands

    folder = pathlib.Path(tempfile.mkdtemp())
    for split in ("train", "test"):
        (folder / f"tasks_{split}_simple.txt").write_text("IN: jump twice OUT: I_JUMP I_JUMP\\n")
    examples = load_commands(folder, "train", "simple", cache=folder)
    assert examples.sources == ["jump twice"] and examples.targets == [["I_JUMP I_JUMP"]]
    ```
    """
    if variant not in SPLITS:
        raise ValueError(f"`variant` must be one of {tuple(SPLITS)}. Received: variant={variant!r}")
    if str(data).startswith("tfds:"):
        return _download(f"{data}/{SPLITS[variant]}", split, cache)
    return read_split(Scan(data, variant, data_dir=cache), split)


def _download(data, split, cache):
    try:
        return load_examples(data, split, cache=cache)
    except OSError as error:
        raise ConnectionError(
            f"{data} cannot be downloaded. Give the folder that git clone {REPOSITORY} makes"
        ) from error


def _find(folder, name):
    """The file of each split, in the folder or below it."""
    found = {}
    for split in ("train", "test"):
        files = sorted(folder.rglob(f"tasks_{split}_{name}.txt*"))
        if not files:
            raise FileNotFoundError(
                f"{folder} should hold tasks_{split}_{name}.txt (or with .gz behind), as SCAN has "
                f"it: git clone {REPOSITORY}"
            )
        found[split] = files[:1]
    return found
