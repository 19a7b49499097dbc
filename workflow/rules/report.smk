# A static page that a stranger can read.
rule build_report:
    input:
        item_files=ITEM_FILES,
        tables=of_ready_items("csv"),
        table_records=of_ready_items("table_record"),
        figures=of_ready_items("png"),
        figure_records=of_ready_items("figure_record"),
        records=records_of_scale,
        cards=cards_of_scale,
        deals=deals_of_scale,
        comparison="results/{scale}/comparison.csv",
        verdicts="results/{scale}/verdicts.json",
        judgement="results/{scale}/judgement.run.json",
        papers=PAPER_FILES,
        templates=TEMPLATES,
        judged="config/papers/claims.csv",
    output:
        index="results/{scale}/report/index.html",
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
        code=code_of_rule("build_report"),
    shell:
        "python -m leaklab.steps.build_report --spec {params.spec:q} --code {params.code}"
        " --input comparison={input.comparison} verdicts={input.verdicts}"
        " judgement={input.judgement}"
        " $(printf ' papers=%s' {input.papers}) $(printf ' templates=%s' {input.templates}) judged={input.judged}"
        " $(printf ' item_files=%s' {input.item_files}) $(printf ' tables=%s' {input.tables})"
        " $(printf ' table_records=%s' {input.table_records}) $(printf ' figures=%s' {input.figures})"
        " $(printf ' figure_records=%s' {input.figure_records}) $(printf ' records=%s' {input.records})"
        " $(printf ' cards=%s' {input.cards}) $(printf ' deals=%s' {input.deals})"
        " --output index={output.index} run={output.run} 2> {log}"
