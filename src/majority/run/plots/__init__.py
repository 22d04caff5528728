"""Drawings as SVG and small pictures, without a plotting library."""
