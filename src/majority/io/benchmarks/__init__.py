"""Labelled sets, from which benchmark bags are made."""
