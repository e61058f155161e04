"""Encoded images to pixels, inside the graph."""

from zoo.image.image_reader import ImageReader
from zoo.image.image_table import ImageTable
