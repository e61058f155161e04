"""Errors that say how a command ends."""


class UsageError(ValueError):
    """A value that no work can be done with: the command was used wrongly."""

    exit_code = 2
