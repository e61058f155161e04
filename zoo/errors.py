"""Errors that say how a command ends."""


class UsageError(ValueError):
    """A value that no work can be done with: the command was used wrongly."""

    exit_code = 2


class Failure(Exception):
    """What was to be done could not be done, or not now."""

    def __init__(self, message, exit_code=1):
        super().__init__(message)
        self.exit_code = exit_code
