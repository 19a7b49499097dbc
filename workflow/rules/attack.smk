# What a server sees, what it makes of it, and how near that comes to the truth.
# run_attack has neither the truth among its inputs nor the seeds of the capture in its spec.
rule capture_updates:
    input:
        dataset=dataset_of("capture", ".safetensors"),
        card=dataset_of("capture", ".json"),
        partition=if_needed("capture", "partition", "partition.json"),
        weights=if_needed("capture", "train", "weights.safetensors"),
        generator=if_needed("capture", "generator", "generator.safetensors"),
        description=if_needed("capture", "generator", "generator.json"),
    output:
        observation="results/runs/observation/{run}/observation.safetensors",
        facts="results/runs/observation/{run}/facts.json",
        truth="results/runs/capture/{run}/truth.safetensors",
        truth_facts="results/runs/capture/{run}/truth_facts.json",
        run="results/runs/capture/{run}/run.json",
    log:
        "logs/capture/{run}.log",
    benchmark:
        "benchmarks/jobs/capture/{run}.tsv"
    priority: rank_of("capture")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        mem_mb=memory_of("capture"),
        runtime=runtime_of("capture"),
    params:
        spec=spec_of("capture"),
        generation=generation_of_run("capture"),
        code=code_of_run("capture"),
    shell:
        "python -m leaklab.steps.capture_updates --spec {params.spec:q} --code {params.code} --threads {threads}"
        " --input dataset={input.dataset} card={input.card}"
        " $(printf ' partition=%s' {input.partition}) $(printf ' weights=%s' {input.weights})"
        " $(printf ' generator=%s' {input.generator}) $(printf ' description=%s' {input.description})"
        " --output observation={output.observation} facts={output.facts} truth={output.truth}"
        " truth_facts={output.truth_facts} run={output.run} 2> {log}"


rule run_attack:
    input:
        observation=observed("attack", "observation.safetensors"),
        facts=observed("attack", "facts.json"),
        generator=if_needed("attack", "generator", "generator.safetensors"),
        description=if_needed("attack", "generator", "generator.json"),
        checkpoint=after_pieces("attack", "checkpoint.safetensors"),
    output:
        reconstruction="results/runs/attack/{run}/reconstruction.safetensors",
        trials="results/runs/attack/{run}/trials.csv",
        run="results/runs/attack/{run}/run.json",
    log:
        "logs/attack/{run}.log",
    benchmark:
        "benchmarks/jobs/attack/{run}.tsv"
    priority: rank_of("attack")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        mem_mb=memory_of("attack"),
        runtime=runtime_of("attack"),
        gpu=GPUS,
    params:
        spec=spec_of("attack"),
        generation=generation_of_run("attack"),
        code=code_of_run("attack"),
        device=DEVICE,
    shell:
        "python -m leaklab.steps.run_attack --spec {params.spec:q} --code {params.code}"
        " --device {params.device} --threads {threads}"
        " --input observation={input.observation} facts={input.facts}"
        " $(printf ' generator=%s' {input.generator}) $(printf ' description=%s' {input.description})"
        " --output reconstruction={output.reconstruction} trials={output.trials} run={output.run} 2> {log}"


rule score_attack:
    input:
        reconstruction=needed("score", "attack", "reconstruction.safetensors"),
        trials=needed("score", "attack", "trials.csv"),
        truth=needed("score", "capture", "truth.safetensors"),
        truth_facts=needed("score", "capture", "truth_facts.json"),
        dataset=dataset_of("score", ".safetensors"),
        card=dataset_of("score", ".json"),
        observation=of_read_update("observation.safetensors"),
        facts=of_read_update("facts.json"),
        generator=if_needed("score", "generator", "generator.safetensors"),
        description=if_needed("score", "generator", "generator.json"),
    output:
        scores="results/runs/score/{run}/scores.csv",
        cards="results/runs/score/{run}/cards.json",
        run="results/runs/score/{run}/run.json",
    log:
        "logs/score/{run}.log",
    benchmark:
        "benchmarks/jobs/score/{run}.tsv"
    priority: rank_of("score")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        mem_mb=memory_of("score"),
        runtime=runtime_of("score"),
    params:
        spec=spec_of("score"),
        generation=generation_of_run("score"),
        code=code_of_run("score"),
    shell:
        "python -m leaklab.steps.score_attack --spec {params.spec:q} --code {params.code} --threads {threads}"
        " --input reconstruction={input.reconstruction} trials={input.trials} truth={input.truth}"
        " truth_facts={input.truth_facts} dataset={input.dataset} card={input.card}"
        " $(printf ' observation=%s' {input.observation}) $(printf ' facts=%s' {input.facts})"
        " $(printf ' generator=%s' {input.generator}) $(printf ' description=%s' {input.description})"
        " --output scores={output.scores} cards={output.cards} run={output.run} 2> {log}"
