# Raw data -> one checked file per data set -> who holds what.
rule fetch_dataset:
    output:
        data="data/prepared/{dataset}.safetensors",
        card="data/prepared/{dataset}.json",
        run="data/prepared/{dataset}.run.json",
    log:
        "logs/fetch/{dataset}.log",
    priority: runs.rank_of_dataset("")
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=memory_of_dataset,
    params:
        spec=dataset_spec,
        source=dataset_entry,
        generation=results.generation_of("fetch_dataset"),
        code=results.code_of("fetch_dataset"),
        files=files,
    shell:
        step("fetch_dataset")


rule partition_data:
    input:
        dataset=runs.dataset_of("partition", ".safetensors"),
    output:
        partition="results/runs/partition/{run}/partition.json",
        run="results/runs/partition/{run}/run.json",
    log:
        "logs/partition/{run}.log",
    priority: runs.rank_of("partition")
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=2000,
    params:
        spec=runs.spec_of("partition"),
        generation=runs.generation_of("partition"),
        code=runs.code_of("partition"),
        files=files,
    shell:
        step("partition_data")


rule draw_partition:
    input:
        dataset=runs.dataset_of("partition", ".safetensors"),
        partition="results/runs/partition/{run}/partition.json",
    output:
        png="results/runs/partition/{run}/partition.png",
        pdf="results/runs/partition/{run}/partition.pdf",
        run="results/runs/partition/{run}/partition.run.json",
    log:
        "logs/draw-partition/{run}.log",
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=2000,
    params:
        spec=runs.spec_of("partition"),
        generation=results.generation_of("draw_partition"),
        code=results.code_of("draw_partition"),
        files=files,
    shell:
        step("draw_partition")


# Sentences, each of which a client holds.
rule fetch_text:
    output:
        corpus="data/prepared/text/{dataset}.json",
        run="data/prepared/text/{dataset}.run.json",
    log:
        "logs/fetch-text/{dataset}.log",
    priority: runs.rank_of_dataset("text/")
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=1000,
    params:
        spec=dataset_spec,
        source=text_entry,
        generation=results.generation_of("fetch_text"),
        code=results.code_of("fetch_text"),
        files=files,
    shell:
        step("fetch_text")
