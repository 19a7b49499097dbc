# From runs to an item's result table and figure; from all tables to verdicts.
rule make_table:
    input:
        item=item_yaml,
        sweeps=of_item(item_files.sweeps),
        scores=of_item(item_files.scores),
        checks=of_item(item_files.checks),
        cards=of_item(item_files.cards),
        targets="config/papers/targets.csv",
        tolerances="config/papers/tolerances.yaml",
    output:
        csv="results/{scale}/{paper}/{item}.csv",
        markdown="results/{scale}/{paper}/{item}.md",
        latex="results/{scale}/{paper}/{item}.tex",
        run="results/{scale}/{paper}/{item}.run.json",
    log:
        "logs/table/{scale}-{paper}-{item}.log",
    benchmark:
        "benchmarks/jobs/table/{scale}-{paper}-{item}.tsv"
    priority: RESULT
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=2000,
    params:
        spec=item_spec,
        generation=generation_of_rule("make_table"),
        code=code_of_rule("make_table"),
    shell:
        "python -m leaklab.steps.make_table --spec {params.spec:q} --code {params.code}"
        " --input item={input.item} targets={input.targets} tolerances={input.tolerances}"
        " $(printf ' cards=%s' {input.cards}) $(printf ' sweeps=%s' {input.sweeps}) $(printf ' scores=%s' {input.scores})"
        " $(printf ' checks=%s' {input.checks})"
        " --output csv={output.csv} markdown={output.markdown} latex={output.latex} run={output.run} 2> {log}"


rule make_figure:
    input:
        item=item_yaml,
        csv="results/{scale}/{paper}/{item}.csv",
        targets="config/papers/targets.csv",
        tolerances="config/papers/tolerances.yaml",
        pictures=of_item(item_files.pictures),
    output:
        png="figures/{scale}/{paper}/{item}.png",
        pdf="figures/{scale}/{paper}/{item}.pdf",
        data="figures/{scale}/{paper}/{item}.npz",
        run="figures/{scale}/{paper}/{item}.run.json",
    log:
        "logs/figure/{scale}-{paper}-{item}.log",
    benchmark:
        "benchmarks/jobs/figure/{scale}-{paper}-{item}.tsv"
    priority: RESULT
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=2000,
    params:
        spec=item_spec,
        generation=generation_of_rule("make_figure"),
        code=code_of_rule("make_figure"),
    shell:
        "python -m leaklab.steps.make_figure --spec {params.spec:q} --code {params.code}"
        " --input item={input.item} csv={input.csv} targets={input.targets}"
        " tolerances={input.tolerances} $(printf ' pictures=%s' {input.pictures})"
        " --output png={output.png} pdf={output.pdf} data={output.data} run={output.run} 2> {log}"


rule judge_claims:
    input:
        item_files=ITEM_FILES,
        tables=of_ready_items("csv"),
        targets="config/papers/targets.csv",
        claims="config/papers/claims.csv",
        tolerances="config/papers/tolerances.yaml",
        printed="config/papers/printed.yaml",
    output:
        comparison="results/{scale}/comparison.csv",
        claims="results/{scale}/claims.csv",
        verdicts="results/{scale}/verdicts.json",
        run="results/{scale}/judgement.run.json",
    log:
        "logs/judge/{scale}.log",
    benchmark:
        "benchmarks/jobs/judge/{scale}.tsv"
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=2000,
    params:
        spec=scale_spec,
        generation=generation_of_rule("judge_claims"),
        code=code_of_rule("judge_claims"),
    shell:
        "python -m leaklab.steps.judge_claims --spec {params.spec:q} --code {params.code}"
        " --input targets={input.targets} claims={input.claims} tolerances={input.tolerances} printed={input.printed}"
        " $(printf ' item_files=%s' {input.item_files}) $(printf ' tables=%s' {input.tables})"
        " --output comparison={output.comparison} claims={output.claims} verdicts={output.verdicts}"
        " run={output.run} 2> {log}"
