"""Everything heavy, behind the core's protocols. The ``build`` modules map names to engines."""
