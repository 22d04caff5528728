"""What is done with a trained model: evaluation, predictions, files."""
