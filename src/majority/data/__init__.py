"""Bags: their instances in memory or on disk, how they are split, and batches of them on a device."""
