"""How the command `zoo` starts: at once, and without TensorFlow's lines."""

import contextlib
import os
import pathlib
import sys
import tempfile


def is_command():
    """Whether this process is the command `zoo`, and no program that imports the zoo."""
    return pathlib.Path(sys.argv[0]).name == "zoo"


def load_library():
    """Imports all that takes seconds; under the command, `import zoo` alone does not."""
    with quiet_command():
        import zoo.library

    names = vars(zoo.library)
    vars(zoo).update({name: names[name] for name in names if not name.startswith("_")})


@contextlib.contextmanager
def quiet_command():
    """Within it, nothing reaches stderr if this is the command, unless something goes wrong.

    TensorFlow writes on the file descriptor, before any log level of it can be set. A program that
    imports the zoo as a library keeps all its lines.
    """
    if not is_command():
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
