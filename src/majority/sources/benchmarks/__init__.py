"""Labelled sets of which benchmark bags are made."""
