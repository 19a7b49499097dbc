# Long jobs in pieces (planning/pieces.py): each leaves the checkpoint of a job that was killed there, and the job goes
# on from it. What pieces leave is temporary, but for their records, which say what they cost.
rule attack_piece:
    input:
        observation=runs.observed("attack", "observation.safetensors"),
        facts=runs.observed("attack", "facts.json"),
        generator=runs.if_needed("attack", "generator", "generator.safetensors"),
        description=runs.if_needed("attack", "generator", "generator.json"),
        law=runs.if_needed("attack", "law", "law.safetensors"),
        laws=runs.if_needed("attack", "law", "law.json"),
        before=pieces.part_before(),
    output:
        part=temp("results/runs/attack/{run}/piece-{piece}.safetensors"),
        run="results/runs/attack/{run}/piece-{piece}.json",
    log:
        "logs/attack/{run}-{piece}.log",
    priority: runs.rank_of("attack")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        **ON_DEVICE,
        mem_mb=runs.memory_of("attack"),
        runtime=pieces.runtime_of("attack"),
    params:
        spec=pieces.spec_of("attack"),
        generation=runs.generation_of("attack"),
        code=runs.code_of("attack"),
        files=files,
        device=runs.device_of("attack"),
    shell:
        step("attack_piece", "device", "threads")


rule join_pieces:
    input:
        part=pieces.parts_of("attack"),
    output:
        checkpoint=temp("results/runs/attack/{run}/checkpoint.safetensors"),
        run=temp("results/runs/attack/{run}/joined.json"),
    log:
        "logs/attack/{run}-joined.log",
    priority: runs.rank_of("attack")
    conda:
        "../envs/leaklab.yaml"
    params:
        files=files,
    shell:
        f"{START}join_pieces {{params.files}} 2> {{log}}"


rule text_piece:
    input:
        observation=runs.observed("attack-text", "observation.safetensors"),
        facts=runs.observed("attack-text", "facts.json"),
    output:
        part=temp("results/runs/attack-text/{run}/piece-{piece}.safetensors"),
        run="results/runs/attack-text/{run}/piece-{piece}.json",
    log:
        "logs/attack-text/{run}-{piece}.log",
    priority: runs.rank_of("attack-text")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        **ON_DEVICE,
        mem_mb=runs.memory_of("attack-text"),
        runtime=pieces.runtime_of("attack-text"),
    params:
        spec=pieces.spec_of("attack-text"),
        generation=runs.generation_of("attack-text"),
        code=runs.code_of("attack-text"),
        files=files,
        device=runs.device_of("attack-text"),
    shell:
        step("text_piece", "device", "threads")


use rule join_pieces as join_text_pieces with:
    input:
        part=pieces.parts_of("attack-text"),
    output:
        checkpoint=temp("results/runs/attack-text/{run}/checkpoint.safetensors"),
        run=temp("results/runs/attack-text/{run}/joined.json"),
    log:
        "logs/attack-text/{run}-joined.log",
    priority: runs.rank_of("attack-text")


# one after the other: the number in the marker says how many pieces are left, the last of which is train_federated
rule train_piece:
    input:
        dataset=runs.dataset_of("train", ".safetensors"),
        card=runs.dataset_of("train", ".json"),
        partition=runs.needed("train", "partition", "partition.json"),
        shorter=pieces.shorter(),
        backbone=runs.if_needed("train", "train", "weights.safetensors"),
        before=pieces.marker_before(),
    output:
        marker=temp("results/runs/train/{run}/left-{left}.json"),
        run="results/runs/train/{run}/piece-left-{left}.json",
    log:
        "logs/train/{run}-left-{left}.log",
    priority: runs.rank_of("train")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        **ON_DEVICE,
        mem_mb=runs.memory_of("train"),
        runtime=pieces.runtime_of("train"),
    params:
        spec=pieces.spec_of("train"),
        generation=runs.generation_of("train"),
        code=runs.code_of("train"),
        files=files,
        device=runs.device_of("train"),
    shell:
        step("train_piece", "device", "threads")
