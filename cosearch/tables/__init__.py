"""The tables of the paper and ours, from evaluated rows to Markdown, CSV and LaTeX."""
