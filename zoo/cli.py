"""Attention-based sequence-to-sequence models: train them, export them, try them."""

import contextlib
import functools
import importlib.util
import io
import logging
import os
import pathlib
import re
import sys
import traceback

import tyro

from zoo import commands
from zoo.errors import UsageError, first_line
from zoo.startup import load_library

HERE = pathlib.Path(__file__).parent
RECIPES = HERE.parent / "recipes"
COMMANDS = {
    "export": commands.export,
    "predict": commands.predict,
    "evaluate": commands.evaluate,
    "score": commands.score,
    "align": commands.align,
    "plot": commands.plot,
    "check": commands.check,
    "serve": commands.serve,
    "data-service": commands.data_service,
    "info": commands.info,
}
# What starts without TensorFlow; the page before another server never needs it.
AT_ONCE = (commands.info, commands.serve)


def load_recipes():
    """The recipes that came with the zoo and train, {name: module}."""
    load_library()
    recipes = {}
    for path in sorted(RECIPES.glob("[!_]*.py")):
        spec = importlib.util.spec_from_file_location(f"recipes.{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:  # the others are well
            reason = f"{type(error).__name__}: {error}"
            print(f"zoo: {path} cannot be loaded: {reason}", file=sys.stderr)
            continue
        if hasattr(module, "Config"):  # what has none trains nothing
            recipes[path.stem] = module
    return recipes


def main(recipe=None):
    """Runs the command line; a recipe that is run as a script passes itself."""
    logging.getLogger("absl").setLevel(logging.ERROR)  # tensorflow-datasets is talkative
    _open_streams()
    try:
        try:
            _run(recipe)
        except SystemExit:
            sys.stdout.flush()
            raise
        sys.stdout.flush()  # here, where it is told what goes wrong
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # `zoo predict ... | head` has read enough
        _discard_output()
    except Exception as error:
        if isinstance(error, OSError):
            _discard_output()  # a full disk would be told of a second time
        if not _is_for_the_user(error):
            raise
        is_errno = isinstance(error, OSError) and error.strerror and error.filename
        message = f"{error.filename}: {error.strerror}" if is_errno else error
        print(f"zoo: {message}", file=sys.stderr)
        sys.exit(_exit_code(error))


def _open_streams():
    """Opens nothing as those standard streams that are closed."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115


def _discard_output():
    """Writes what the standard output still holds, or, where that cannot be, to nowhere."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(recipe):
    # Recipes are code: what does not need them does not run them.
    wanted = recipe is None and sys.argv[1:2] in (["train"], ["list"])
    recipes = load_recipes() if wanted else {}
    app = tyro.extras.SubcommandApp()
    if recipe is None:
        train = tyro.extras.SubcommandApp() if recipes else lambda: None
        for name, module in recipes.items():
            train.command(module.Config, name=name)
        named = sys.argv[2] if sys.argv[1:2] == ["train"] and len(sys.argv) > 2 else "-"
        if not named.startswith("-") and named.replace("-", "_") not in recipes:
            raise UsageError(f"There is no recipe {named}. There is: {', '.join(recipes)}")
        app.command(train, name="train", help="Trains a recipe, or goes on with a run.")

        def list_all(*, markdown: bool = False):
            """Shows the recipes, and the SavedModels in ./saved_models with their scores.

            Args:
                markdown: Prints the SavedModels as the table that README.md has.
            """
            return functools.partial(commands.list_all, recipes, markdown)

        app.command(list_all, name="list")
    else:
        app.command(recipe.Config, name="train")
    for name, command in COMMANDS.items():
        app.command(_deferred(command), name=name)

    with _mistakes_in_a_line():
        parsed = app.cli(prog="zoo", description=__doc__, config=(tyro.conf.FlagCreatePairsOff,))
    if isinstance(parsed, functools.partial):
        if parsed.func not in AT_ONCE:
            load_library()
        return parsed()
    parsed.validate()
    # A run that is there goes on with its own config, where the command line says nothing else.
    from zoo.training import devices
    from zoo.training.run import stored_config, with_model_of
    from zoo.training.trainer import use_all_cores

    def parse(default):
        options = sys.argv[3:] if recipe is None else sys.argv[2:]
        with _mistakes_in_a_line():
            return tyro.cli(type(default), args=options, default=default)

    stored = stored_config(type(parsed), parsed.output)
    if stored:
        parsed = parse(stored)
        parsed.is_complete = True
    else:
        parsed = with_model_of(parsed, parse)  # before the recipe reads its data as it wants it
    if not parsed.jit:  # XLA shares an operation among threads
        use_all_cores()
    devices.start(parsed.strategy)
    return sys.modules[type(parsed).__module__].train(parsed)


def _deferred(command):
    """The command, called later: errors while tyro parses are errors of usage."""

    @functools.wraps(command)
    def parse(*args, **kwargs):
        return functools.partial(command, *args, **kwargs)

    return parse


@contextlib.contextmanager
def _mistakes_in_a_line():
    """What tyro says of a mistake, in a box of several parts, becomes the line of an error."""
    written = io.StringIO()
    try:
        with contextlib.redirect_stderr(written):
            yield
    except SystemExit as end:
        if not end.code:  # help was asked for
            sys.stderr.write(written.getvalue())
            raise
        raise UsageError(_of_box(written.getvalue())) from None
    else:
        sys.stderr.write(written.getvalue())


def _of_box(text):
    """A line of what stands in a box: a title, and parts between rules, of which one is help."""
    # Around it are lines or, for terminals that have none, spaces.
    text = re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯]", "", text)
    _, *lines = (line.strip() for line in text.strip().splitlines())
    parts = [[]]
    for line in lines:
        if re.fullmatch(r"─+|-{3,}", line):
            parts.append([])
        else:
            parts[-1].append(line)
    parts = [" ".join(part).strip().rstrip(".") for part in parts]
    told = [part for part in parts if part and "helptext:" not in part]
    return ". ".join(told) or first_line(text)


def _is_for_the_user(error):
    """Whether an error is a message that the zoo wrote, or the system's about a file."""
    last = pathlib.Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    is_ours = any(last.is_relative_to(folder) for folder in (HERE, RECIPES))
    is_message = isinstance(error, ValueError) or hasattr(error, "exit_code")
    return isinstance(error, OSError) or (is_ours and is_message)


def _exit_code(error):
    """2 where the command was used wrongly, such as with a value that a layer refuses; else 1."""
    frames = traceback.extract_tb(error.__traceback__)
    made = [frame.filename for frame in frames if frame.name == "__init__"]
    by_layer = any(pathlib.Path(file).is_relative_to(HERE / "layers") for file in made)
    return getattr(error, "exit_code", 2 if by_layer else 1)
