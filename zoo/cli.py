"""The command `zoo`."""

import platform
from importlib import metadata

import tyro


def info() -> None:
    """Prints the versions that a bug report needs."""
    print(f"python {platform.python_version()} on {platform.system()} {platform.machine()}")
    for package in ("keras-zoo", "keras", "tensorflow", "tensorflow-text", "tensorflow-datasets"):
        print(package, metadata.version(package))


def main() -> None:
    tyro.extras.subcommand_cli_from_dict({"info": info}, prog="zoo", description=__doc__)
