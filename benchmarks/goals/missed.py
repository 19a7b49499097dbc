"""What was tried for goals that are missed, and what bounds them; numbers stand in the pages that are named."""

RESNET = """
Three ways were measured side by side: autograd's double backward, trials mapped over by `torch.func`, and products of
gradients without forming them (`attacks/matching/module_gradients.py`), which is in use and the fastest
([attacks](attacks.md), by its column of GFLOP/s). Seven passes of a gradient's cost are asked for, in the library's own
convolutions: what is left above the bound is their share of the peak, and the passes over values between them.
"""
PICTURE = """
Ours and breaching's analytic attack read the image off by one division, exactly; who searches for it stands beside them
in [time to a picture](time_to_picture.md), as far as it was measured, and is slower. What the division takes, and what
the checks, the network and the label around it, was not timed apart yet.
"""
SWEEP = """
Plain and tight loops, pfl, Flower and fedjax stand side by side with ours in [training](training.md), whose figures are
older than compiled steps. What these gain over the same step in torch, and what bounds them layer by layer, stands in
the [roofline](roofline.md): near 100 % of matrix products of the same shapes a larger ratio needs a faster processor.
"""
COMMANDS = """
Each way that was measured has a row in [operations](operations.md), with the seconds without it: runs of items kept,
items kept, pictures kept, the scoreboard's protections kept, tables read by column, garbage left alone, numbers without
intervals where none is shown. Templates are kept as compiled since. What is left are parts that one process does one
after another, each a row there too: imports, tables, findings, pages.
"""
SMALL = """
What was measured stands job by job, before and after, in [hours of small](small_hours.md): a score, a search under the
two-level transform, and a search with a prior, which is as fast as before. The records that the hours are added up from
were made before compiled steps, whose gain by job is not measured yet, nor is the bound of the whole reckoned.
"""
PREDICTION = """
Three ways were taken, and [growth](growth.md) says item by item what came of them: curves in place of constants, times
that each plug-in declares, and the share of its evaluations that a search usually makes. The records are of older code
and of several machines: where attacks became faster since, the plan says less than they took. When a search ends is not
known before it does.
"""
SUITE = """
The suite is over ten thousand tests; those that start whole calls of Snakemake, a Slurm or a demo begin as a user's
call does. Ways that were taken: one fork server for the steps of a call, one demo for all tests that look at it, and
kept plans between calls.
"""
WHY = {
    key: " ".join(text.split())
    for key, text in {
        "attack a2-ig": RESNET, "picture mlp-1": PICTURE, "sweep": SWEEP, "commands": COMMANDS, "small": SMALL,
        "prediction": PREDICTION, "make test": SUITE,
    }.items()
}  # fmt: skip
