"""One module per Snakemake rule: parse, read, call the core, write, leave ``run.json``."""
