"""rules: one rule a file, both lenses of it. Its docstring is its page; the table is contract.RULES."""
