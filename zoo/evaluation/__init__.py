"""Metrics (`zoo.evaluation.metrics`), and pictures of alignments (`zoo.evaluation.heat_map`).

What is imported here runs on any backend.
"""

from zoo.evaluation.token_accuracy import TokenAccuracy
