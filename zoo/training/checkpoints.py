import contextlib
import errno
import io
import json
import os
import pathlib
import sys
import zipfile

import numpy as np

# What zipfile and numpy raise at bytes that are not those that were written.
DAMAGE = (zipfile.BadZipFile, ValueError, KeyError, EOFError, RuntimeError, OSError)


class Checkpoints:
    """The weights and states in a run's folder, each file whole or not there at all.

        state-N.npz  all that a training goes on from after N steps, the last few of them
        state-N.json the plain data in it, where that alone has changed since
        epoch-N.npz  the weights after the last few epochs, which are averaged
        best.npz     the averaged weights with the best score

    Arguments:
        run: path of the run's folder.
        keep: int, states to keep: where the last one is damaged, the one before it serves.
        average: int, epochs to average.
    """

    def __init__(self, run, keep=2, average=1):
        self.path = pathlib.Path(run) / "checkpoints"
        self.keep = keep
        self.last_epochs = average

    def save(self, name, variables, **state):
        """Writes variables and a state of plain data."""
        self._write(name, [np.asarray(v.value) for v in variables], state)

    def _write(self, name, arrays, state):
        arrays = {f"{i:04d}": array for i, array in enumerate(arrays)}
        file = io.BytesIO()
        np.savez(file, state=np.array(json.dumps(state)), **arrays)
        write(self.path / f"{name}.npz", file.getvalue())

    def read(self, name):
        """The arrays and the state that were saved under a name."""
        path = self.path / f"{name}.npz"
        try:
            with np.load(path) as file:
                state = json.loads(str(file["state"]))
                return [file[key] for key in sorted(file.files) if key != "state"], state
        except DAMAGE as error:
            if getattr(error, "errno", None) not in (None, errno.EINVAL):
                raise  # the file is not there, or not to be read
            raise ValueError(f"{path} is damaged: {error}") from error

    def states(self):
        """The names of all states, newest first."""
        return sorted((path.stem for path in self.path.glob("state-*.npz")), reverse=True)

    def save_state(self, steps, variables, **state):
        """Keeps a state, unless a weight in it is no number: then the last good one stays."""
        arrays = [np.asarray(v.value) for v in variables]
        if not all(np.isfinite(array).all() for array in arrays):
            return
        self._note(steps).unlink(missing_ok=True)
        self._write(f"state-{steps:08d}", arrays, state)
        for name in self.states()[self.keep :]:
            for path in self.path.glob(f"{name}.*"):
                path.unlink()

    def change_state(self, steps, **state):
        """Gives the kept state after so many steps other plain data."""
        if self._note(steps).with_suffix(".npz").exists():
            write(self._note(steps), json.dumps(state).encode())

    def _note(self, steps):
        return self.path / f"state-{steps:08d}.json"

    def read_state(self):
        """The arrays and the state to go on from, or None; a damaged one is passed over."""
        names = self.states()
        for name in names:
            try:
                arrays, state = self.read(name)
            except ValueError as error:
                if name == names[-1]:
                    raise
                print(f"zoo: {error}; going on from the one before it", file=sys.stderr)
                continue
            note = self.path / f"{name}.json"
            with contextlib.suppress(FileNotFoundError, ValueError):  # none, or a damaged one:
                state = json.loads(note.read_text())  # its epoch is scored once more
            return arrays, state
        return None

    def save_epoch(self, epoch, weights):
        self.save(f"epoch-{epoch}", weights)
        # Who goes on from an older state may finish an older epoch once more.
        last = epoch - self.last_epochs - self.keep
        (self.path / f"epoch-{last}.npz").unlink(missing_ok=True)

    def average(self, epoch):
        """The mean of the weights after the last epochs; a damaged one but the last is left out."""
        total, count = None, 0
        for i in range(max(1, epoch - self.last_epochs + 1), epoch + 1):
            try:
                arrays, _ = self.read(f"epoch-{i}")
            except ValueError as error:
                if i == epoch:
                    raise
                print(f"zoo: {error}; the mean is that of the other epochs", file=sys.stderr)
                continue
            count += 1
            total = arrays if total is None else [a + b for a, b in zip(total, arrays, strict=True)]
        return [(array / count).astype(array.dtype) for array in total]  # or counts


def write(path, data):
    """Writes a file whole or not at all."""
    part = path.with_name(path.name + ".part")
    try:
        with open(part, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
