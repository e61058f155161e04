import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import pathlib

from zoo.errors import require_folder
from zoo.serving.strings import to_bytes


class ResumableFile:
    """A file that is written in parts from lines of input, and goes on after a kill at any moment.

    Beside FILE stands FILE.state: a line of what it is made by, then after each part a line with
    the count of input lines, the bytes written, and a hash of that input. What FILE has beyond the
    last of these is cut off when it goes on.

    Arguments:
        path: path of the file.
        about: dict, what it is made by; other things cannot go on with it.
        resume: bool, whether to go on with the file if it is there.
    """

    def __init__(self, path, about, resume=False):
        self.path = pathlib.Path(path)
        self.state_path = pathlib.Path(f"{path}.state")
        require_folder(path)
        if self.path.exists() and not resume:
            raise FileExistsError(f"{path} is there already. --resume goes on with it")
        if self.path.exists() and not self.state_path.exists():
            raise FileNotFoundError(
                f"{path} cannot be resumed without {self.state_path}. Name another file"
            )
        self._files = contextlib.ExitStack()
        self._state = self._files.enter_context(open(self.state_path, "ab+"))  # noqa: SIM115
        try:
            fcntl.flock(self._state, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with the process
        except BlockingIOError as error:
            raise BlockingIOError(f"{path} is being written by another process") from error
        # The state is the first to be there: without FILE, it says nothing yet.
        entries = self._read_state(about) if self.path.exists() else []
        if not entries:
            self._state.truncate(0)
            self._add_state(json.dumps(about, ensure_ascii=False))
        self._file = self._files.enter_context(open(self.path, "ab+"))  # noqa: SIM115
        is_there = self._file.seek(0, os.SEEK_END)
        entries = [entry for entry in entries if entry[1] <= is_there]
        self.lines, size, self._digest = entries[-1] if entries else (0, 0, None)
        self._file.truncate(size)
        self._hash = hashlib.sha256()

    def skip_done(self, lines):
        """The lines of the input that are still to do."""
        lines = iter(lines)
        done = 0
        for line in itertools.islice(lines, self.lines):
            self._hash.update(to_bytes([line])[0] + b"\n")
            done += 1
        if self.lines and (done, self._hash.hexdigest()) != (self.lines, self._digest):
            raise ValueError(
                f"{self.path} was begun with another input: its first {self.lines} lines are not "
                "those that came now. Give it the same input, or name another file"
            )
        return lines

    def write(self, lines, text):
        """Adds what the next lines of input came to."""
        self._file.write(text.encode("utf-8"))
        self._file.flush()
        os.fsync(self._file.fileno())  # before the state tells that it is there
        for line in lines:
            self._hash.update(to_bytes([line])[0] + b"\n")
        self.lines += len(lines)
        self._add_state(f"{self.lines} {self._file.tell()} {self._hash.hexdigest()}")

    def close(self):
        """Closes both files."""
        self._files.close()

    def __enter__(self):
        return self

    def __exit__(self, error, *_):
        if error and not self.lines:  # nothing would be lost, and the name would be taken
            self.path.unlink(missing_ok=True)
            self.state_path.unlink(missing_ok=True)
        self.close()

    def _add_state(self, line):
        self._state.write(f"{line}\n".encode())
        self._state.flush()

    def _read_state(self, about):
        """What each part of the file that is there was made from: lines, bytes, hash."""
        self._state.seek(0)
        whole, _, cut = self._state.read().rpartition(b"\n")
        self._state.truncate(len(whole) + bool(whole))  # a line that was cut off is forgotten
        try:
            begun, *entries = whole.decode().splitlines()
            begun = json.loads(begun)
            entries = [entry.split() for entry in entries]
            entries = [(int(lines), int(size), digest) for lines, size, digest in entries]
        except ValueError as error:
            raise ValueError(f"{self.state_path} is damaged: {error}") from error
        for name in about:
            if begun.get(name) != about[name]:
                raise ValueError(
                    f"{self.path} was begun with {name} {begun.get(name)!r}. "
                    f"Received: {about[name]!r}. Name another file for it"
                )
        return entries
