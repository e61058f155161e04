import pytest

from tests.tools import run_zoo, run_zoo_here
from tests.training.tools import train_command, write_dictionary


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return write_dictionary(tmp_path_factory.mktemp("words"))


@pytest.fixture(scope="session")
def whole(data, tmp_path_factory):
    """A run that nothing disturbs."""
    run = tmp_path_factory.mktemp("runs") / "whole"
    done = run_zoo(*train_command(data, run))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return run


@pytest.fixture
def zoo_here(monkeypatch, capsys, tmp_path):
    """The command in this process, for what has no need of another: starting one takes seconds."""
    return lambda *arguments: run_zoo_here(monkeypatch, capsys, tmp_path, arguments)
