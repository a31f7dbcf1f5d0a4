"""Everything heavy, behind the core's protocols. ``build`` alone maps names to engines."""
