# What a server sees, what it makes of it, and how near that comes to the truth.
# run_attack has neither the truth among its inputs nor the seeds of the capture in its spec.
rule capture_updates:
    input:
        dataset=runs.dataset_of("capture", ".safetensors"),
        card=runs.dataset_of("capture", ".json"),
        partition=runs.if_needed("capture", "partition", "partition.json"),
        weights=runs.if_needed("capture", "train", "weights.safetensors"),
        generator=runs.if_needed("capture", "generator", "generator.safetensors"),
        description=runs.if_needed("capture", "generator", "generator.json"),
    output:
        observation="results/runs/observation/{run}/observation.safetensors",
        facts="results/runs/observation/{run}/facts.json",
        truth="results/runs/capture/{run}/truth.safetensors",
        truth_facts="results/runs/capture/{run}/truth_facts.json",
        run="results/runs/capture/{run}/run.json",
    log:
        "logs/capture/{run}.log",
    priority: runs.rank_of("capture")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        mem_mb=runs.memory_of("capture"),
        runtime=runs.runtime_of("capture"),
    params:
        spec=runs.spec_of("capture"),
        generation=runs.generation_of("capture"),
        code=runs.code_of("capture"),
        files=files,
    shell:
        step("capture_updates", "threads")


# What an attacker learns of a defense: it defends public images itself, at the weights that were sent.
rule learn_law:
    input:
        observation=runs.observed("law", "observation.safetensors"),
        facts=runs.observed("law", "facts.json"),
        dataset=runs.dataset_of("law", ".safetensors"),
        card=runs.dataset_of("law", ".json"),
        generator=runs.needed("law", "generator", "generator.safetensors"),
        description=runs.needed("law", "generator", "generator.json"),
    output:
        law="results/runs/law/{run}/law.safetensors",
        laws="results/runs/law/{run}/law.json",
        run="results/runs/law/{run}/run.json",
    log:
        "logs/law/{run}.log",
    priority: runs.rank_of("law")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        **ON_DEVICE,
        mem_mb=runs.memory_of("law"),
        runtime=runs.runtime_of("law"),
    params:
        spec=runs.spec_of("law"),
        generation=runs.generation_of("law"),
        code=runs.code_of("law"),
        files=files,
        device=runs.device_of("law"),
    shell:
        step("learn_law", "device", "threads")


rule run_attack:
    input:
        observation=runs.observed("attack", "observation.safetensors"),
        facts=runs.observed("attack", "facts.json"),
        generator=runs.if_needed("attack", "generator", "generator.safetensors"),
        description=runs.if_needed("attack", "generator", "generator.json"),
        law=runs.if_needed("attack", "law", "law.safetensors"),
        laws=runs.if_needed("attack", "law", "law.json"),
        checkpoint=pieces.after("attack", "checkpoint.safetensors"),
    output:
        reconstruction="results/runs/attack/{run}/reconstruction.safetensors",
        trials="results/runs/attack/{run}/trials.csv",
        run="results/runs/attack/{run}/run.json",
    log:
        "logs/attack/{run}.log",
    priority: runs.rank_of("attack")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        **ON_DEVICE,
        mem_mb=runs.memory_of("attack"),
        runtime=runs.runtime_of("attack"),
    params:
        spec=runs.spec_of("attack"),
        generation=runs.generation_of("attack"),
        code=runs.code_of("attack"),
        files=files,
        device=runs.device_of("attack"),
    shell:
        step("run_attack", "device", "threads")


rule score_attack:
    input:
        reconstruction=runs.needed("score", "attack", "reconstruction.safetensors"),
        trials=runs.needed("score", "attack", "trials.csv"),
        truth=runs.needed("score", "capture", "truth.safetensors"),
        truth_facts=runs.needed("score", "capture", "truth_facts.json"),
        dataset=runs.dataset_of("score", ".safetensors"),
        card=runs.dataset_of("score", ".json"),
        observation=runs.of_read_update("observation.safetensors"),
        facts=runs.of_read_update("facts.json"),
        generator=runs.if_needed("score", "generator", "generator.safetensors"),
        description=runs.if_needed("score", "generator", "generator.json"),
    output:
        scores="results/runs/score/{run}/scores.csv",
        cards="results/runs/score/{run}/cards.json",
        run="results/runs/score/{run}/run.json",
    log:
        "logs/score/{run}.log",
    priority: runs.rank_of("score")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        mem_mb=runs.memory_of("score"),
        runtime=runs.runtime_of("score"),
    params:
        spec=runs.spec_of("score"),
        generation=runs.generation_of("score"),
        code=runs.code_of("score"),
        files=files,
    shell:
        step("score_attack", "threads")


# What an attack's loss looks like around the latent that it found. Both steps see the truth, like score_attack.
rule project_image:
    input:
        dataset=runs.dataset_of("projection", ".safetensors"),
        card=runs.dataset_of("projection", ".json"),
        generator=runs.needed("projection", "generator", "generator.safetensors"),
        description=runs.needed("projection", "generator", "generator.json"),
    output:
        projection="results/runs/projection/{run}/projection.safetensors",
        run="results/runs/projection/{run}/run.json",
    log:
        "logs/projection/{run}.log",
    priority: runs.rank_of("projection")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        **ON_DEVICE,
        mem_mb=runs.memory_of("projection"),
        runtime=runs.runtime_of("projection"),
    params:
        spec=runs.spec_of("projection"),
        generation=runs.generation_of("projection"),
        code=runs.code_of("projection"),
        files=files,
        device=runs.device_of("projection"),
    shell:
        step("project_image", "device", "threads")


rule map_landscape:
    input:
        observation=runs.observed("landscape", "observation.safetensors"),
        facts=runs.observed("landscape", "facts.json"),
        truth=runs.needed("landscape", "capture", "truth.safetensors"),
        truth_facts=runs.needed("landscape", "capture", "truth_facts.json"),
        reconstruction=runs.needed("landscape", "attack", "reconstruction.safetensors"),
        projection=runs.needed("landscape", "projection", "projection.safetensors"),
        generator=runs.needed("landscape", "generator", "generator.safetensors"),
        description=runs.needed("landscape", "generator", "generator.json"),
    output:
        landscape="results/runs/landscape/{run}/landscape.csv",
        cards="results/runs/landscape/{run}/cards.json",
        run="results/runs/landscape/{run}/run.json",
    log:
        "logs/landscape/{run}.log",
    priority: runs.rank_of("landscape")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        **ON_DEVICE,
        mem_mb=runs.memory_of("landscape"),
        runtime=runs.runtime_of("landscape"),
    params:
        spec=runs.spec_of("landscape"),
        generation=runs.generation_of("landscape"),
        code=runs.code_of("landscape"),
        files=files,
        device=runs.device_of("landscape"),
    shell:
        step("map_landscape", "device", "threads")


# The same for a client that holds a sentence, and what a server reads of it.
# attack_text has neither the truth among its inputs nor the seeds of the capture in its spec.
rule capture_text:
    input:
        corpus=runs.dataset_of("capture-text", ".json"),
    output:
        observation="results/runs/observation-text/{run}/observation.safetensors",
        facts="results/runs/observation-text/{run}/facts.json",
        truth="results/runs/capture-text/{run}/truth.json",
        run="results/runs/capture-text/{run}/run.json",
    log:
        "logs/capture-text/{run}.log",
    priority: runs.rank_of("capture-text")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        mem_mb=runs.memory_of("capture-text"),
        runtime=runs.runtime_of("capture-text"),
    params:
        spec=runs.spec_of("capture-text"),
        generation=runs.generation_of("capture-text"),
        code=runs.code_of("capture-text"),
        files=files,
    shell:
        step("capture_text", "threads")


rule attack_text:
    input:
        observation=runs.observed("attack-text", "observation.safetensors"),
        facts=runs.observed("attack-text", "facts.json"),
        checkpoint=pieces.after("attack-text", "checkpoint.safetensors"),
    output:
        reconstruction="results/runs/attack-text/{run}/reconstruction.json",
        trials="results/runs/attack-text/{run}/trials.csv",
        run="results/runs/attack-text/{run}/run.json",
    log:
        "logs/attack-text/{run}.log",
    priority: runs.rank_of("attack-text")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        **ON_DEVICE,
        mem_mb=runs.memory_of("attack-text"),
        runtime=runs.runtime_of("attack-text"),
    params:
        spec=runs.spec_of("attack-text"),
        generation=runs.generation_of("attack-text"),
        code=runs.code_of("attack-text"),
        files=files,
        device=runs.device_of("attack-text"),
    shell:
        step("attack_text", "device", "threads")


rule score_text:
    input:
        reconstruction=runs.needed("score-text", "attack-text", "reconstruction.json"),
        trials=runs.needed("score-text", "attack-text", "trials.csv"),
        truth=runs.needed("score-text", "capture-text", "truth.json"),
        corpus=runs.dataset_of("score-text", ".json"),
    output:
        scores="results/runs/score-text/{run}/scores.csv",
        texts="results/runs/score-text/{run}/texts.json",
        cards="results/runs/score-text/{run}/cards.json",
        run="results/runs/score-text/{run}/run.json",
    log:
        "logs/score-text/{run}.log",
    priority: runs.rank_of("score-text")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        mem_mb=runs.memory_of("score-text"),
        runtime=runs.runtime_of("score-text"),
    params:
        spec=runs.spec_of("score-text"),
        generation=runs.generation_of("score-text"),
        code=runs.code_of("score-text"),
        files=files,
    shell:
        step("score_text", "threads")
