# Every number traced to its data and its commit.
rule audit_provenance:
    input:
        index="results/{scale}/report/index.html",
    output:
        audit="results/{scale}/provenance/audit.json",
        run="results/{scale}/provenance/audit.run.json",
    log:
        "logs/audit/{scale}.log",
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=1000,
    params:
        spec=scale_spec,
        generation=results.generation_of("audit_provenance"),
        code=results.code_of("audit_provenance"),
        files=files,
    shell:
        step("audit_provenance")


rule build_crate:
    input:
        index="results/{scale}/report/index.html",
        audit="results/{scale}/provenance/audit.json",
    output:
        crate="results/{scale}/provenance/ro-crate-metadata.json",
        run="results/{scale}/provenance/run.json",
    log:
        "logs/crate/{scale}.log",
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=1000,
    params:
        spec=scale_spec,
        generation=results.generation_of("build_crate"),
        code=results.code_of("build_crate"),
        files=files,
    shell:
        step("build_crate")
