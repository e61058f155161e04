"""What the subcommands of `zoo` do, apart from `train`, which a recipe does: a file for each."""

from zoo.commands.align import align
from zoo.commands.check import check
from zoo.commands.data_service import data_service
from zoo.commands.evaluate import evaluate
from zoo.commands.export import export
from zoo.commands.info import info
from zoo.commands.list_all import list_all
from zoo.commands.plot import plot
from zoo.commands.predict import predict
from zoo.commands.score import score
from zoo.commands.serve import serve
