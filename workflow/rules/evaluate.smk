# Theorems, algorithms, protocols and drawings, checked by numbers. Some are told who holds how much in a deal.
rule check_theory:
    input:
        partition=runs.if_needed("check", "partition", "partition.json"),
    output:
        numbers="results/runs/check/{run}/numbers.csv",
        run="results/runs/check/{run}/run.json",
    log:
        "logs/check/{run}.log",
    priority: runs.rank_of("check")
    conda:
        "../envs/leaklab.yaml"
    threads: 1
    resources:
        mem_mb=runs.memory_of("check"),
        runtime=runs.runtime_of("check"),
    params:
        spec=runs.spec_of("check"),
        generation=runs.generation_of("check"),
        code=runs.code_of("check"),
        files=files,
    shell:
        step("check_theory", "threads")


# From runs to an item's result table and figure; from all tables to verdicts.
rule make_table:
    input:
        item=results.item_yaml,
        sweeps=results.of_item(result_lookups.sweeps),
        scores=results.of_item(result_lookups.scores),
        checks=results.of_item(result_lookups.checks),
        cards=results.of_item(result_lookups.cards),
        targets="config/papers/targets.csv",
        tolerances="config/papers/tolerances.yaml",
    output:
        csv=report(
            "results/{scale}/{paper}/{item}.csv",
            caption="../report/table.rst",
            category="{paper} at scale {scale}",
            subcategory="{item}",
            labels=results.labels("numbers"),
        ),
        markdown="results/{scale}/{paper}/{item}.md",
        latex="results/{scale}/{paper}/{item}.tex",
        run="results/{scale}/{paper}/{item}.run.json",
    log:
        "logs/table/{scale}-{paper}-{item}.log",
    priority: RESULT
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=2000,
    params:
        spec=results.item_spec,
        generation=results.generation_of("make_table"),
        code=results.code_of("make_table"),
        files=files,
    shell:
        step("make_table")


rule make_figure:
    input:
        item=results.item_yaml,
        csv="results/{scale}/{paper}/{item}.csv",
        targets="config/papers/targets.csv",
        tolerances="config/papers/tolerances.yaml",
        pictures=results.of_item(result_lookups.pictures),
    output:
        png=report(
            "figures/{scale}/{paper}/{item}.png",
            caption="../report/figure.rst",
            category="{paper} at scale {scale}",
            subcategory="{item}",
            labels=results.labels("figure"),
        ),
        pdf="figures/{scale}/{paper}/{item}.pdf",
        data="figures/{scale}/{paper}/{item}.npz",
        run="figures/{scale}/{paper}/{item}.run.json",
    log:
        "logs/figure/{scale}-{paper}-{item}.log",
    priority: RESULT
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=2000,
    params:
        spec=results.item_spec,
        generation=results.generation_of("make_figure"),
        code=results.code_of("make_figure"),
        files=files,
    shell:
        step("make_figure")


rule judge_claims:
    input:
        item_files=ITEM_FILES,
        tables=results.of_ready_items("csv"),
        targets="config/papers/targets.csv",
        claims="config/papers/claims.csv",
        tolerances="config/papers/tolerances.yaml",
        printed="config/papers/printed.yaml",
        sentences="config/papers/sentences.csv",
    output:
        comparison="results/{scale}/comparison.csv",
        claims=report(
            "results/{scale}/claims.csv",
            caption="../report/claims.rst",
            category="claims at scale {scale}",
            labels={"what": "claims and verdicts"},
        ),
        verdicts="results/{scale}/verdicts.json",
        metrics="results/{scale}/metrics.json",
        run="results/{scale}/judgement.run.json",
    log:
        "logs/judge/{scale}.log",
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=2000,
    params:
        spec=scale_spec,
        generation=results.generation_of("judge_claims"),
        code=results.code_of("judge_claims"),
        files=files,
    shell:
        step("judge_claims")
