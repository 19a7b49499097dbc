include: "workflow/Snakefile"


# here, because Snakemake takes the default target from the file that it is given and never from one that it includes
rule default:
    default_target: True
    input:
        results.targets_of(CONFIG.scale),
