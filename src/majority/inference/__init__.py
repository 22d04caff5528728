"""A trained model on bags: figures, predictions, files."""
