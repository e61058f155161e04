from zoo.evaluation.token_accuracy import TokenAccuracy
