# Every number traced to its data and its commit.
rule audit_provenance:
    input:
        "results/{scale}/report/index.html",
    output:
        audit="results/{scale}/provenance/audit.json",
        run="results/{scale}/provenance/audit.run.json",
    log:
        "logs/audit/{scale}.log",
    benchmark:
        "benchmarks/jobs/audit/{scale}.tsv"
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=1000,
    params:
        spec=scale_spec,
        generation=generation_of_rule("audit_provenance"),
        code=code_of_rule("audit_provenance"),
    shell:
        "python -m leaklab.steps.audit_provenance --spec {params.spec:q} --code {params.code}"
        " --input index={input} --output audit={output.audit} run={output.run} 2> {log}"


rule build_crate:
    input:
        index="results/{scale}/report/index.html",
        audit="results/{scale}/provenance/audit.json",
    output:
        crate="results/{scale}/provenance/ro-crate-metadata.json",
        run="results/{scale}/provenance/run.json",
    log:
        "logs/crate/{scale}.log",
    benchmark:
        "benchmarks/jobs/crate/{scale}.tsv"
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=1000,
    params:
        spec=scale_spec,
        generation=generation_of_rule("build_crate"),
        code=code_of_rule("build_crate"),
    shell:
        "python -m leaklab.steps.build_crate --spec {params.spec:q} --code {params.code}"
        " --input index={input.index} audit={input.audit} --output crate={output.crate} run={output.run} 2> {log}"
