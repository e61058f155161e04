import pathlib
import re

from zoo.data.builders import PairsBuilder, config_of
from zoo.data.examples import read_split
from zoo.data.pairs import SPLIT_NAMES

REPOSITORY = "https://github.com/ryancotterell/sigmorphon2016"


class Sigmorphon2016(PairsBuilder, skip_registration=True):
    """A language in the format of the shared task of SIGMORPHON 2016 (Cotterell et al. 2016).

    Each line is "lemma TAB features TAB form", features as in "pos=N,case=GEN,num=PL". A source is
    "lemma features", with a space between them.
    """

    name = "sigmorphon2016"

    def __init__(self, folder, language=None, **kwargs):
        self.folder = folder
        self.language = language
        self.files = _find(pathlib.Path(folder), language)
        super().__init__(config=config_of(language or "own", self.files), **kwargs)

    def _info(self):
        licence = "CC BY-SA (SIGMORPHON 2016, from Wiktionary)" if self.language else None
        return self._pairs_info(
            description=self.__doc__,
            homepage=REPOSITORY,
            license=licence,
        )

    def _splits(self, dl_manager):
        return self.files

    @staticmethod
    def _fields(line):
        fields = [field.strip() for field in line.split("\t")]
        if len(fields) != 3:
            raise ValueError(f"{len(fields)} fields between tabs, not lemma, features and form")
        lemma, features, form = fields
        wrong = [f for f in features.split(",") if not all(f.partition("=")) or " " in f]
        if wrong:
            raise ValueError(f"features must be like pos=N,num=PL, not {wrong[0]!r}")
        return [f"{lemma} {features}" if lemma else "", form]


def load_inflections(folder, split, language=None, cache=None):
    """Reads one split of a language in the format of SIGMORPHON 2016 into memory, as `Examples`.

    Arguments:
        folder: the task's repository or folder of data, with LANGUAGE-train.tsv or
            LANGUAGE-task1-train and the like; or data of one's own with train.tsv and dev.tsv.
            Files may be gzip.
        split: "train", "validation" or "test".
        language: str such as "finnish"; None for train.tsv.
        cache: a folder for prepared data, that of tensorflow-datasets by default.

    Example:

    ```python
    import pathlib, tempfile
    from zoo.data import load_inflections

    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "finnish-train.tsv").write_text("talo\\tpos=N,case=GEN,num=SG\\ttalon\\n")
    examples = load_inflections(folder, "train", "finnish", cache=folder)
    assert examples.sources == ["talo pos=N,case=GEN,num=SG"] and examples.targets == [["talon"]]
    ```
    """
    return read_split(Sigmorphon2016(folder, language, data_dir=cache), split)


def _find(folder, language):
    """The file of each split."""
    if not folder.is_dir():
        raise FileNotFoundError(
            f"`data` must be a folder, such as git clone {REPOSITORY} makes. Received: {folder}"
        )
    files = [*folder.glob("data/*"), *folder.iterdir()]
    files = {file.name.removesuffix(".gz"): file for file in sorted(files)}
    found = {}
    for split, names in SPLIT_NAMES.items():
        wanted = [f"{name}.tsv" for name in names]
        if language:
            wanted = [f"{language}-{name}" for name in wanted]
            wanted += [f"{language}-task1-{name}" for name in names]
        here = [files[name] for name in wanted if name in files]
        if here:
            found[split] = here[:1]
    if "train" not in found:
        names = (re.fullmatch(r"(.+?)(-task1)?-train(\.tsv)?", name) for name in files)
        languages = sorted({name[1] for name in names if name})
        wanted = f"{language}-train.tsv" if language else "train.tsv"
        hint = f"it has the languages {', '.join(languages)}" if languages else "it has none"
        raise FileNotFoundError(f"{folder} should hold {wanted} (or with .gz behind), but {hint}")
    return found
