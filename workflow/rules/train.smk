# One job is a sweep: one model, one data set, one algorithm, one defense; all rates and seeds advance together.
rule train_federated:
    input:
        dataset=dataset_of("train", ".safetensors"),
        card=dataset_of("train", ".json"),
        partition=needed("train", "partition", "partition.json"),
        backbone=if_needed("train", "train", "weights.safetensors"),
        before=after_pieces("train", "left-1.json"),
    output:
        sweep="results/runs/train/{run}/sweep.parquet",
        weights="results/runs/train/{run}/weights.safetensors",
        run="results/runs/train/{run}/run.json",
    log:
        "logs/train/{run}.log",
    benchmark:
        "benchmarks/jobs/train/{run}.tsv"
    priority: rank_of("train")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        mem_mb=memory_of("train"),
        runtime=runtime_of("train"),
        gpu=GPUS,
    params:
        spec=spec_of("train"),
        generation=generation_of_run("train"),
        code=code_of_run("train"),
        device=DEVICE,
    shell:
        "python -m leaklab.steps.train_federated --spec {params.spec:q} --code {params.code}"
        " --device {params.device} --threads {threads}"
        " --input dataset={input.dataset} card={input.card} partition={input.partition}"
        " $(printf ' backbone=%s' {input.backbone})"
        " --output sweep={output.sweep} weights={output.weights} run={output.run} 2> {log}"
