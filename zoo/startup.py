"""Keeps TensorFlow's start-up lines out of what the command `zoo` prints."""

import contextlib
import os
import pathlib
import sys
import tempfile


@contextlib.contextmanager
def quiet_command():
    """Within it, nothing reaches stderr if this is the command, unless something goes wrong.

    TensorFlow writes on the file descriptor, before any log level of it can be set. A program that
    imports the zoo as a library keeps all its lines.
    """
    if pathlib.Path(sys.argv[0]).name != "zoo":
        yield
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # and later ones: what matters is raised
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as lines:
        os.dup2(lines.fileno(), 2)
        try:
            yield
        except BaseException:
            lines.seek(0)
            os.write(kept, lines.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
