"""Compare all results of a scale with the printed numbers and judge the papers' claims on them."""

from collections import Counter
from dataclasses import asdict

from leaklab.items.items import load_item
from leaklab.records.files import write_json
from leaklab.report.judge.claims import read_claims
from leaklab.report.judge.comparison import write_comparison
from leaklab.report.judge.judging import judge_all
from leaklab.report.judge.printed import Printed, as_printed, beside_text, load_choices, read_in_text
from leaklab.report.judge.tolerances import Tolerances
from leaklab.report.judge.verdicts import write_verdicts
from leaklab.report.numbers.results import ResultTable
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write the comparison, the verdicts, the numbers that they rest on, and the counts that DVC shows as metrics."""
    items = [load_item(path) for path in job.inputs["item_files"]]
    results = sum((ResultTable.read(path) for path in job.inputs.get("tables", [])), ResultTable())
    printed = Printed.load(job.input("targets"), job.input("tolerances"))
    rows = printed.beside(as_printed(results, load_choices(job.input("printed"))), items)
    rows += beside_text(results, read_in_text(job.input("sentences")))
    write_comparison(job.outputs["comparison"], rows)
    claims = read_claims(job.input("claims"))
    stand_ins = Tolerances.load(job.input("tolerances")).stand_ins
    verdicts = judge_all(claims, results, printed.numbers, stand_ins, job.spec["scale"])
    write_verdicts(job.outputs["claims"], claims, verdicts)
    write_json(job.outputs["verdicts"], [asdict(verdict) for verdict in verdicts])
    compared = [row.within for row in rows if row.within != "not compared"]
    strongest = [verdict.knowing.verdict for verdict in verdicts if verdict.knowing]
    counts = {
        "claims": dict(sorted(Counter(verdict.verdict for verdict in verdicts).items())),
        "claims_by_the_strongest_attacker": dict(sorted(Counter(strongest).items())),
        "printed_numbers": {"compared": len(compared), "within_tolerance": compared.count("yes")},
    }
    write_json(job.outputs["metrics"], counts)
    job.note(claims=counts["claims"], compared=len(compared))


if __name__ == "__main__":
    main("judge_claims", run)
