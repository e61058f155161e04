"""Errors that say how a command ends."""

import pathlib


def first_line(message):
    """The first line with something in it, of a message that may be long, or empty."""
    lines = (line.strip() for line in str(message).splitlines())
    return next((line for line in lines if line), "no reason given")


def require_folder(path):
    """Raises an error unless the folder is there in which a file is to be written."""
    folder = pathlib.Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {folder} for {path}")


class UsageError(ValueError):
    """A value that no work can be done with: the command was used wrongly."""

    exit_code = 2


class Failure(Exception):
    """What was to be done could not be done, or not now."""

    def __init__(self, message, exit_code=1):
        super().__init__(message)
        self.exit_code = exit_code
