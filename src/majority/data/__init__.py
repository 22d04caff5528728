"""Bags, where their instances lie, how they are split and brought to a device."""
