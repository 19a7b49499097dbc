# What a checkout without runs shows of them beside the results of a scale: costs, metric cards, drawings of deals.
# The outputs are updated: of items whose runs are not here, what was published before is kept.
rule publish_runs:
    input:
        figures=of_ready_items("png"),
        figure_records=of_ready_items("figure_record"),
        table_records=of_ready_items("table_record"),
        records=here(records_of_scale),
        run_cards=here(cards_of_scale),
        deals=here(deals_of_scale),
    output:
        costs=update("results/{scale}/costs.csv"),
        cards=update("results/{scale}/cards.json"),
        run=update("results/{scale}/costs.run.json"),
    log:
        "logs/publish-runs/{scale}.log",
    benchmark:
        "benchmarks/jobs/publish-runs/{scale}.tsv"
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=1000,
    params:
        spec=scale_spec,
        generation=generation_of_rule("publish_runs"),
        code=code_of_rule("publish_runs"),
    shell:
        "python -m leaklab.steps.publish_runs --spec {params.spec:q} --code {params.code}"
        " --input $(printf ' figures=%s' {input.figures}) $(printf ' figure_records=%s' {input.figure_records})"
        " $(printf ' table_records=%s' {input.table_records}) $(printf ' records=%s' {input.records})"
        " $(printf ' run_cards=%s' {input.run_cards}) $(printf ' deals=%s' {input.deals})"
        " --output costs={output.costs} cards={output.cards} run={output.run} 2> {log}"


# What every attacker's row of a scale has to know, from the plan and the tables alone.
rule publish_threat_models:
    input:
        item_files=ITEM_FILES,
        tables=of_ready_items("csv"),
    output:
        threat_models="results/{scale}/threat-models.csv",
        run="results/{scale}/threat-models.run.json",
    log:
        "logs/publish-threat-models/{scale}.log",
    benchmark:
        "benchmarks/jobs/publish-threat-models/{scale}.tsv"
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=1000,
    params:
        spec=report_spec,
        generation=generation_of_rule("publish_threat_models"),
        code=code_of_rule("publish_threat_models"),
    shell:
        "python -m leaklab.steps.publish_threat_models --spec {params.spec:q} --code {params.code}"
        " --input $(printf ' item_files=%s' {input.item_files}) $(printf ' tables=%s' {input.tables})"
        " --output threat_models={output.threat_models} run={output.run} 2> {log}"


# A static page that a stranger can read.
rule build_report:
    input:
        item_files=ITEM_FILES,
        tables=of_ready_items("csv"),
        table_records=of_ready_items("table_record"),
        figures=of_ready_items("png"),
        figure_records=of_ready_items("figure_record"),
        records=records_of_scale,
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
    output:
        index="results/{scale}/report/index.html",
        pages=multiext("results/{scale}/report/", "style.css", "claims.html", *PAGES),
        readme="results/{scale}/README.md",
        run="results/{scale}/report/run.json",
    log:
        "logs/report/{scale}.log",
    benchmark:
        "benchmarks/jobs/report/{scale}.tsv"
    conda:
        "../envs/leaklab.yaml"
    resources:
        mem_mb=2000,
    params:
        spec=report_spec,
        generation=generation_of_rule("build_report"),
        code=code_of_rule("build_report"),
    shell:
        "python -m leaklab.steps.build_report --spec {params.spec:q} --code {params.code}"
        " --input comparison={input.comparison} verdicts={input.verdicts}"
        " judgement={input.judgement} headlines={input.headlines}"
        " costs={input.costs} cards={input.cards} publication={input.publication}"
        " threat_models={input.threat_models}"
        " $(printf ' papers=%s' {input.papers}) $(printf ' templates=%s' {input.templates}) judged={input.judged}"
        " $(printf ' item_files=%s' {input.item_files}) $(printf ' tables=%s' {input.tables})"
        " $(printf ' table_records=%s' {input.table_records}) $(printf ' figures=%s' {input.figures})"
        " $(printf ' figure_records=%s' {input.figure_records}) $(printf ' records=%s' {input.records})"
        " --output index={output.index} readme={output.readme} run={output.run} 2> {log}"
