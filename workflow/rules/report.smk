# What a checkout without runs shows of them beside the results of a scale: costs, metric cards, drawings of deals.
# The outputs are updated: of items whose runs are not here, what was published before is kept.
rule publish_runs:
    input:
        figures=results.of_ready_items("png"),
        figure_records=results.of_ready_items("figure_record"),
        table_records=results.of_ready_items("table_record"),
        records=results.here(results.records),
        run_cards=results.here(results.cards),
        deals=results.here(results.deals),
    output:
        costs=update("results/{scale}/costs.csv"),
        cards=update("results/{scale}/cards.json"),
        run=update("results/{scale}/costs.run.json"),
    log:
        "logs/publish-runs/{scale}.log",
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=1000,
    params:
        spec=scale_spec,
        generation=results.generation_of("publish_runs"),
        code=results.code_of("publish_runs"),
        files=files,
    shell:
        step("publish_runs")


# What every attacker's row of a scale has to know, from the plan and the tables alone.
rule publish_threat_models:
    input:
        item_files=ITEM_FILES,
        tables=results.of_ready_items("csv"),
    output:
        threat_models="results/{scale}/threat-models.csv",
        run="results/{scale}/threat-models.run.json",
    log:
        "logs/publish-threat-models/{scale}.log",
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=1000,
    params:
        spec=results.report_spec,
        generation=results.generation_of("publish_threat_models"),
        code=results.code_of("publish_threat_models"),
        files=files,
    shell:
        step("publish_threat_models")


# A static page that a stranger can read.
rule build_report:
    input:
        item_files=ITEM_FILES,
        tables=results.of_ready_items("csv"),
        table_records=results.of_ready_items("table_record"),
        figures=results.of_ready_items("png"),
        figure_records=results.of_ready_items("figure_record"),
        records=results.records,
        costs="results/{scale}/costs.csv",
        cards="results/{scale}/cards.json",
        publication="results/{scale}/costs.run.json",
        threat_models="results/{scale}/threat-models.csv",
        comparison="results/{scale}/comparison.csv",
        verdicts="results/{scale}/verdicts.json",
        judgement="results/{scale}/judgement.run.json",
        papers=PAPER_FILES,
        templates=TEMPLATES,
        judged="config/papers/claims.csv",
        headlines="config/papers/headlines.yaml",
        scoreboard=SCOREBOARD_FILES,
    output:
        index="results/{scale}/report/index.html",
        pages=multiext("results/{scale}/report/", "style.css", "claims.html", *PAGES),
        readme="results/{scale}/README.md",
        run="results/{scale}/report/run.json",
    log:
        "logs/report/{scale}.log",
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=2000,
    params:
        spec=results.report_spec,
        generation=results.generation_of("build_report"),
        code=results.code_of("build_report"),
        files=files,
    shell:
        step("build_report")
