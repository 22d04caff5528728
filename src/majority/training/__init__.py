"""The training of one network."""
