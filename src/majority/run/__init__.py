"""One experiment in a run folder, and a run folder opened again."""
