# Theorems, algorithms, protocols and drawings, checked by numbers. Some are told who holds how much in a deal.
rule check_theory:
    input:
        partition=if_needed("check", "partition", "partition.json"),
    output:
        numbers="results/runs/check/{run}/numbers.csv",
        run="results/runs/check/{run}/run.json",
    log:
        "logs/check/{run}.log",
    benchmark:
        "benchmarks/jobs/check/{run}.tsv"
    priority: rank_of("check")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        mem_mb=memory_of("check"),
        runtime=runtime_of("check"),
    params:
        spec=spec_of("check"),
        generation=generation_of_run("check"),
        code=code_of_run("check"),
    shell:
        "python -m leaklab.steps.check_theory --spec {params.spec:q} --code {params.code} --threads {threads}"
        " --input $(printf ' partition=%s' {input.partition})"
        " --output numbers={output.numbers} run={output.run} 2> {log}"
