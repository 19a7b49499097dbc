# Long jobs in pieces (planning/pieces.py): each leaves the checkpoint of a job that was killed there, and the job goes
# on from it. What pieces leave is temporary, but for their records, which say what they cost.
rule attack_piece:
    input:
        observation=observed("attack", "observation.safetensors"),
        facts=observed("attack", "facts.json"),
        generator=if_needed("attack", "generator", "generator.safetensors"),
        description=if_needed("attack", "generator", "generator.json"),
        before=part_before,
    output:
        part=temp("results/runs/attack/{run}/piece-{piece}.safetensors"),
        run="results/runs/attack/{run}/piece-{piece}.json",
    log:
        "logs/attack/{run}-{piece}.log",
    priority: rank_of("attack")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        mem_mb=memory_of("attack"),
        runtime=runtime_of_piece("attack"),
        gpu=GPUS,
    params:
        spec=spec_of_piece("attack"),
        generation=generation_of_run("attack"),
        code=code_of_run("attack"),
        device=DEVICE,
    shell:
        "python -m leaklab.steps.attack_piece --spec {params.spec:q} --code {params.code}"
        " --device {params.device} --threads {threads}"
        " --input observation={input.observation} facts={input.facts}"
        " $(printf ' generator=%s' {input.generator}) $(printf ' description=%s' {input.description})"
        " --output part={output.part} run={output.run} 2> {log}"


rule join_pieces:
    input:
        parts_of("attack"),
    output:
        checkpoint=temp("results/runs/attack/{run}/checkpoint.safetensors"),
        run=temp("results/runs/attack/{run}/joined.json"),
    log:
        "logs/attack/{run}-joined.log",
    priority: rank_of("attack")
    conda:
        "../envs/leaklab.yaml"
    shell:
        "python -m leaklab.steps.join_pieces --input $(printf ' part=%s' {input})"
        " --output checkpoint={output.checkpoint} run={output.run} 2> {log}"


rule text_piece:
    input:
        observation=observed("attack-text", "observation.safetensors"),
        facts=observed("attack-text", "facts.json"),
    output:
        part=temp("results/runs/attack-text/{run}/piece-{piece}.safetensors"),
        run="results/runs/attack-text/{run}/piece-{piece}.json",
    log:
        "logs/attack-text/{run}-{piece}.log",
    priority: rank_of("attack-text")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        mem_mb=memory_of("attack-text"),
        runtime=runtime_of_piece("attack-text"),
    params:
        spec=spec_of_piece("attack-text"),
        generation=generation_of_run("attack-text"),
        code=code_of_run("attack-text"),
    shell:
        "python -m leaklab.steps.text_piece --spec {params.spec:q} --code {params.code} --threads {threads}"
        " --input observation={input.observation} facts={input.facts}"
        " --output part={output.part} run={output.run} 2> {log}"


use rule join_pieces as join_text_pieces with:
    input:
        parts_of("attack-text"),
    output:
        checkpoint=temp("results/runs/attack-text/{run}/checkpoint.safetensors"),
        run=temp("results/runs/attack-text/{run}/joined.json"),
    log:
        "logs/attack-text/{run}-joined.log",
    priority: rank_of("attack-text")


# one after the other: the number in the marker says how many pieces are left, the last of which is train_federated
rule train_piece:
    input:
        dataset=dataset_of("train", ".safetensors"),
        card=dataset_of("train", ".json"),
        partition=needed("train", "partition", "partition.json"),
        backbone=if_needed("train", "train", "weights.safetensors"),
        before=piece_before,
    output:
        marker=temp("results/runs/train/{run}/left-{left}.json"),
        run="results/runs/train/{run}/piece-left-{left}.json",
    log:
        "logs/train/{run}-left-{left}.log",
    priority: rank_of("train")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        mem_mb=memory_of("train"),
        runtime=runtime_of_piece("train"),
        gpu=GPUS,
    params:
        spec=spec_of_piece("train"),
        generation=generation_of_run("train"),
        code=code_of_run("train"),
        device=DEVICE,
    shell:
        "python -m leaklab.steps.train_piece --spec {params.spec:q} --code {params.code}"
        " --device {params.device} --threads {threads}"
        " --input dataset={input.dataset} card={input.card} partition={input.partition}"
        " $(printf ' backbone=%s' {input.backbone})"
        " --output marker={output.marker} run={output.run} 2> {log}"
