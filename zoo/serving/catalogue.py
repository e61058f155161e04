"""What SavedModels say of themselves, as a table for people."""

import pathlib

from zoo.serving.saved_model import find_version, read_about, versions

# sacreBLEU's own short names for the parts of its signatures.
SHORT = {"nrefs": "#", "case": "c", "eff": "e", "smooth": "s", "space": "s", "version": "v"}


def find_models(folder):
    """The SavedModels in a folder such as saved_models, one path each."""
    return [path for path in sorted(pathlib.Path(folder).glob("*")) if versions(path)]


def markdown_table(folder):
    """The newest version of each SavedModel in a folder, as a table in Markdown.

    README.md has it, as `zoo list --markdown` prints it.

    Arguments:
        folder: path, of which the links in the table have the last part.

    Example:

    ```python
    from zoo.serving import markdown_table

    print(markdown_table("saved_models"))
    ```
    """
    lines = [
        "| | task | data | model | score on dev | size | training |",
        "|---|---|---|---|---|---|---|",
    ]
    for path in find_models(folder):
        version, about = find_version(path), read_about(path)
        size = sum(file.stat().st_size for file in version.rglob("*") if file.is_file())
        cells = [
            f"[{path.name}]({path.parent.name}/{path.name}/{version.name})",
            about.get("task", "").split(":")[0],
            _data(about),
            _model(about),
            "<br>".join(_score(name, value) for name, value in about.get("scores", {}).items()),
            f"{size / 1e6:.1f} MB",
            "<br>".join(_training(one) for one in _members(about)),
        ]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def short_signature(signature):
    """A signature of sacreBLEU in its short form; those of the zoo are short."""
    parts = [part.partition(":") for part in signature.split("|")]
    return "|".join(f"{SHORT.get(key, key)}{colon}{value}" for key, colon, value in parts)


def _score(name, value):
    return f"{name} {value['score']:.2f} `{short_signature(value['signature'])}`"


def _data(about):
    """The name of the data without the folder where it was, and the languages if any."""
    name = about.get("data", {}).get("name", "")
    if not name.startswith("tfds:"):
        before, colon, _ = name.partition(":")
        name = before if colon else pathlib.Path(name).name
    config = about.get("config", {})
    languages = [config[side] for side in ("source", "target", "language") if config.get(side)]
    return " ".join([name, "-".join(languages)]).strip()


def _members(about):
    training = about.get("training")
    return training.get("members", [training]) if training else []


def _model(about):
    count = len(_members(about))  # an ensemble's may be of several kinds
    return f"ensemble of {count}" if count > 1 else about.get("config", {}).get("model", "")


def _training(one):
    # A training that went on from a version took longer than it says.
    after = f", from {one['went_on_from']} on" if "went_on_from" in one else ""
    return f"{one['time'].split()[0]} on {one['machine']}{after}"
