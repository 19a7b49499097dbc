# Raw data -> one checked file per data set -> who holds what.
rule fetch_dataset:
    output:
        data="data/prepared/{dataset}.safetensors",
        card="data/prepared/{dataset}.json",
        run="data/prepared/{dataset}.run.json",
    log:
        "logs/fetch/{dataset}.log",
    benchmark:
        "benchmarks/jobs/fetch/{dataset}.tsv"
    priority: rank_of_dataset("")
    conda:
        "../envs/leaklab.yaml"
    resources:
        # three times the images of ImageNet at the sides that the catalog asks for
        mem_mb=lambda wildcards: (
            60000 if wildcards.dataset.startswith("imagenet") else 2000
        ),
    params:
        source=dataset_entry,
        generation=generation_of_rule("fetch_dataset"),
        code=code_of_rule("fetch_dataset"),
    shell:
        'python -m leaklab.steps.fetch_dataset --spec \'{{"dataset": "{wildcards.dataset}"}}\' --code {params.code}'
        " --output data={output.data} card={output.card} run={output.run} 2> {log}"


rule partition_data:
    input:
        dataset=dataset_of("partition", ".safetensors"),
    output:
        partition="results/runs/partition/{run}/partition.json",
        run="results/runs/partition/{run}/run.json",
    log:
        "logs/partition/{run}.log",
    benchmark:
        "benchmarks/jobs/partition/{run}.tsv"
    priority: rank_of("partition")
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=2000,
    params:
        spec=spec_of("partition"),
        generation=generation_of_run("partition"),
        code=code_of_run("partition"),
    shell:
        "python -m leaklab.steps.partition_data --spec {params.spec:q} --code {params.code}"
        " --input dataset={input.dataset} --output partition={output.partition} run={output.run} 2> {log}"


rule draw_partition:
    input:
        dataset=dataset_of("partition", ".safetensors"),
        partition="results/runs/partition/{run}/partition.json",
    output:
        png="results/runs/partition/{run}/partition.png",
        pdf="results/runs/partition/{run}/partition.pdf",
        run="results/runs/partition/{run}/partition.run.json",
    log:
        "logs/draw-partition/{run}.log",
    benchmark:
        "benchmarks/jobs/draw-partition/{run}.tsv"
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=2000,
    params:
        spec=spec_of("partition"),
        generation=generation_of_rule("draw_partition"),
        code=code_of_rule("draw_partition"),
    shell:
        "python -m leaklab.steps.draw_partition --spec {params.spec:q} --code {params.code}"
        " --input dataset={input.dataset} partition={input.partition}"
        " --output png={output.png} pdf={output.pdf} run={output.run} 2> {log}"
