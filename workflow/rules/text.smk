# Sentences: what a server sees of a client that holds one, what it reads, and how near that comes to the truth.
# attack_text has neither the truth among its inputs nor the seeds of the capture in its spec.
rule fetch_text:
    output:
        corpus="data/prepared/text/{dataset}.json",
        run="data/prepared/text/{dataset}.run.json",
    log:
        "logs/fetch-text/{dataset}.log",
    benchmark:
        "benchmarks/jobs/fetch-text/{dataset}.tsv"
    priority: rank_of_dataset("text/")
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=1000,
    params:
        source=text_entry,
        generation=generation_of_rule("fetch_text"),
        code=code_of_rule("fetch_text"),
    shell:
        'python -m leaklab.steps.fetch_text --spec \'{{"dataset": "{wildcards.dataset}"}}\' --code {params.code}'
        " --output corpus={output.corpus} run={output.run} 2> {log}"


rule capture_text:
    input:
        corpus=dataset_of("capture-text", ".json"),
    output:
        observation="results/runs/observation-text/{run}/observation.safetensors",
        facts="results/runs/observation-text/{run}/facts.json",
        truth="results/runs/capture-text/{run}/truth.json",
        run="results/runs/capture-text/{run}/run.json",
    log:
        "logs/capture-text/{run}.log",
    benchmark:
        "benchmarks/jobs/capture-text/{run}.tsv"
    priority: rank_of("capture-text")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        mem_mb=memory_of("capture-text"),
        runtime=runtime_of("capture-text"),
    params:
        spec=spec_of("capture-text"),
        generation=generation_of_run("capture-text"),
        code=code_of_run("capture-text"),
    shell:
        "python -m leaklab.steps.capture_text --spec {params.spec:q} --code {params.code} --threads {threads}"
        " --input corpus={input.corpus}"
        " --output observation={output.observation} facts={output.facts} truth={output.truth} run={output.run}"
        " 2> {log}"


rule attack_text:
    input:
        observation=observed("attack-text", "observation.safetensors"),
        facts=observed("attack-text", "facts.json"),
        checkpoint=after_pieces("attack-text", "checkpoint.safetensors"),
    output:
        reconstruction="results/runs/attack-text/{run}/reconstruction.json",
        trials="results/runs/attack-text/{run}/trials.csv",
        run="results/runs/attack-text/{run}/run.json",
    log:
        "logs/attack-text/{run}.log",
    benchmark:
        "benchmarks/jobs/attack-text/{run}.tsv"
    priority: rank_of("attack-text")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        mem_mb=memory_of("attack-text"),
        runtime=runtime_of("attack-text"),
    params:
        spec=spec_of("attack-text"),
        generation=generation_of_run("attack-text"),
        code=code_of_run("attack-text"),
    shell:
        "python -m leaklab.steps.attack_text --spec {params.spec:q} --code {params.code} --threads {threads}"
        " --input observation={input.observation} facts={input.facts}"
        " --output reconstruction={output.reconstruction} trials={output.trials} run={output.run} 2> {log}"


rule score_text:
    input:
        reconstruction=needed("score-text", "attack-text", "reconstruction.json"),
        trials=needed("score-text", "attack-text", "trials.csv"),
        truth=needed("score-text", "capture-text", "truth.json"),
        corpus=dataset_of("score-text", ".json"),
    output:
        scores="results/runs/score-text/{run}/scores.csv",
        texts="results/runs/score-text/{run}/texts.json",
        cards="results/runs/score-text/{run}/cards.json",
        run="results/runs/score-text/{run}/run.json",
    log:
        "logs/score-text/{run}.log",
    benchmark:
        "benchmarks/jobs/score-text/{run}.tsv"
    priority: rank_of("score-text")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        mem_mb=memory_of("score-text"),
        runtime=runtime_of("score-text"),
    params:
        spec=spec_of("score-text"),
        generation=generation_of_run("score-text"),
        code=code_of_run("score-text"),
    shell:
        "python -m leaklab.steps.score_text --spec {params.spec:q} --code {params.code} --threads {threads}"
        " --input reconstruction={input.reconstruction} trials={input.trials} truth={input.truth}"
        " corpus={input.corpus}"
        " --output scores={output.scores} texts={output.texts} cards={output.cards} run={output.run} 2> {log}"
