# One job is a sweep: one model, one data set, one algorithm, one defense; all rates and seeds advance together.
rule train_federated:
    input:
        dataset=runs.dataset_of("train", ".safetensors"),
        card=runs.dataset_of("train", ".json"),
        partition=runs.needed("train", "partition", "partition.json"),
        shorter=pieces.shorter(),
        backbone=runs.if_needed("train", "train", "weights.safetensors"),
        before=pieces.after("train", "left-1.json"),
    output:
        sweep="results/runs/train/{run}/sweep.parquet",
        weights="results/runs/train/{run}/weights.safetensors",
        run="results/runs/train/{run}/run.json",
    log:
        "logs/train/{run}.log",
    priority: runs.rank_of("train")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        **ON_DEVICE,
        mem_mb=runs.memory_of("train"),
        runtime=runs.runtime_of("train"),
    params:
        spec=runs.spec_of("train"),
        generation=runs.generation_of("train"),
        code=runs.code_of("train"),
        files=files,
        device=runs.device_of("train"),
    shell:
        step("train_federated", "device", "threads")


# The prior of generative attacks: a generator of images, from the training part of a data set or with published weights.
rule train_generator:
    input:
        dataset=runs.dataset_of("generator", ".safetensors"),
        dataset_card=runs.dataset_of("generator", ".json"),
    output:
        generator="results/runs/generator/{run}/generator.safetensors",
        description="results/runs/generator/{run}/generator.json",
        card="results/runs/generator/{run}/card.json",
        run="results/runs/generator/{run}/run.json",
    log:
        "logs/generator/{run}.log",
    priority: runs.rank_of("generator")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        **ON_DEVICE,
        mem_mb=runs.memory_of("generator"),
        runtime=runs.runtime_of("generator"),
    params:
        spec=runs.spec_of("generator"),
        generation=runs.generation_of("generator"),
        code=runs.code_of("generator"),
        files=files,
        device=runs.device_of("generator"),
    shell:
        step("train_generator", "device", "threads")
