# The prior of generative attacks: a generator of images, from the training part of a data set or with published weights.
rule train_generator:
    input:
        dataset=dataset_of("generator", ".safetensors"),
        dataset_card=dataset_of("generator", ".json"),
    output:
        generator="results/runs/generator/{run}/generator.safetensors",
        description="results/runs/generator/{run}/generator.json",
        card="results/runs/generator/{run}/card.json",
        run="results/runs/generator/{run}/run.json",
    log:
        "logs/generator/{run}.log",
    benchmark:
        "benchmarks/jobs/generator/{run}.tsv"
    priority: rank_of("generator")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        mem_mb=memory_of("generator"),
        runtime=runtime_of("generator"),
        gpu=GPUS,
    params:
        spec=spec_of("generator"),
        generation=generation_of_run("generator"),
        code=code_of_run("generator"),
        device=DEVICE,
    shell:
        "python -m leaklab.steps.train_generator --spec {params.spec:q} --code {params.code}"
        " --device {params.device} --threads {threads}"
        " --input dataset={input.dataset} dataset_card={input.dataset_card}"
        " --output generator={output.generator} description={output.description} card={output.card}"
        " run={output.run} 2> {log}"
