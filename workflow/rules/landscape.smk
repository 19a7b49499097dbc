# What an attack's loss looks like around the latent that it found. Both steps see the truth, like score_attack.
rule project_image:
    input:
        dataset=dataset_of("projection", ".safetensors"),
        card=dataset_of("projection", ".json"),
        generator=needed("projection", "generator", "generator.safetensors"),
        description=needed("projection", "generator", "generator.json"),
    output:
        projection="results/runs/projection/{run}/projection.safetensors",
        run="results/runs/projection/{run}/run.json",
    log:
        "logs/projection/{run}.log",
    benchmark:
        "benchmarks/jobs/projection/{run}.tsv"
    priority: rank_of("projection")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        mem_mb=memory_of("projection"),
        runtime=runtime_of("projection"),
        gpu=GPUS,
    params:
        spec=spec_of("projection"),
        generation=generation_of_run("projection"),
        code=code_of_run("projection"),
        device=DEVICE,
    shell:
        "python -m leaklab.steps.project_image --spec {params.spec:q} --code {params.code}"
        " --device {params.device} --threads {threads}"
        " --input dataset={input.dataset} card={input.card}"
        " generator={input.generator} description={input.description}"
        " --output projection={output.projection} run={output.run} 2> {log}"


rule map_landscape:
    input:
        observation=observed("landscape", "observation.safetensors"),
        facts=observed("landscape", "facts.json"),
        truth=needed("landscape", "capture", "truth.safetensors"),
        truth_facts=needed("landscape", "capture", "truth_facts.json"),
        reconstruction=needed("landscape", "attack", "reconstruction.safetensors"),
        projection=needed("landscape", "projection", "projection.safetensors"),
        generator=needed("landscape", "generator", "generator.safetensors"),
        description=needed("landscape", "generator", "generator.json"),
    output:
        landscape="results/runs/landscape/{run}/landscape.csv",
        cards="results/runs/landscape/{run}/cards.json",
        run="results/runs/landscape/{run}/run.json",
    log:
        "logs/landscape/{run}.log",
    benchmark:
        "benchmarks/jobs/landscape/{run}.tsv"
    priority: rank_of("landscape")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        mem_mb=memory_of("landscape"),
        runtime=runtime_of("landscape"),
        gpu=GPUS,
    params:
        spec=spec_of("landscape"),
        generation=generation_of_run("landscape"),
        code=code_of_run("landscape"),
        device=DEVICE,
    shell:
        "python -m leaklab.steps.map_landscape --spec {params.spec:q} --code {params.code}"
        " --device {params.device} --threads {threads}"
        " --input observation={input.observation} facts={input.facts} truth={input.truth}"
        " truth_facts={input.truth_facts} reconstruction={input.reconstruction} projection={input.projection}"
        " generator={input.generator} description={input.description}"
        " --output landscape={output.landscape} cards={output.cards} run={output.run} 2> {log}"
