"""What was tried for goals that are missed, and what bounds them; numbers stand in the pages that are named."""

RESNET = """
Three ways were measured side by side: autograd's double backward, trials mapped over by `torch.func`, and products of
gradients without forming them (`attacks/matching/module_gradients.py`), which is in use and the fastest
([attacks](attacks.md), by its column of GFLOP/s). Seven passes of a gradient's cost are asked for, in the library's own
convolutions: what is left above the bound is their share of the peak, and the passes over values between them.
"""
PICTURE = """
Ours and breaching's analytic attack read the image off by one division, exactly; a search with a prior, DLG, iDLG and
IG stand beside them in [time to a picture](time_to_picture.md). What is left is the call and not the arithmetic: a
plug-in checks what it is given, puts the network together from the broadcast weights and reads the label, and a
twentieth of the peer's time is less than that takes in Python. From peers that search, the distance is larger: their
rows stand in the same table.
"""
SWEEP = """
Three ways stand side by side in [training](training.md): the step written out for torch (`torch`), compiled steps
(`ours`), and all cells mapped over in one compiled program (`fedjax`). What bounds the compiled step is shown layer by
layer in the [roofline](roofline.md): where its share of matrix products of the same shapes is near 100 %, a larger
ratio would need a faster processor, as the plain loop's own share of the peak is what the ratio divides by.
"""
COMMANDS = """
Each way that was taken has a row in [operations](operations.md), with the seconds without it: runs of items kept, items
kept, pictures kept, templates kept as compiled, the scoreboard's protections kept, tables read by column, garbage left
alone, numbers without intervals where none is shown. What is left are parts that one process does one after another,
each a row there too: imports, tables, findings, pages. `leaklab items` reads one kept file; its time is Python's start
and the import of the library of the command line.
"""
SMALL = """
Ways that were measured stand job by job, before and after, in [hours of small](small_hours.md): scores that import
less, a search under a transform in one pass, and fewer evaluations of a search with a prior, which changed nothing.
Compiled steps ([training](training.md), [attacks](attacks.md)) are the fourth; the records that the hours are added up
from were made before them. By operations, the heaviest group (attacks on the LeNet) is bound by double backward passes
of a small network, whose share of the peak stands in [attacks](attacks.md).
"""
PREDICTION = """
Three ways were taken, and [growth](growth.md) says item by item what came of them: curves in place of constants, times
that each plug-in declares, and the share of its evaluations that a search usually makes. The records are of older code
and of several machines: where attacks became faster since, the plan says less than they took. When a search ends is not
known before it does.
"""
SUITE = """
The suite is over ten thousand tests; a few dozen that start whole calls of Snakemake, a Slurm or a demo take the most,
because each has to begin as a user's call does. Ways that were taken: one fork server for the steps of a call, one demo
for all tests that look at it, and kept plans between calls. What is left is imports of torch and Snakemake, once for
each process that is what is tested.
"""
WHY = {
    key: " ".join(text.split())
    for key, text in {
        "attack a2-ig": RESNET, "picture mlp-1": PICTURE, "sweep": SWEEP, "commands": COMMANDS, "small": SMALL,
        "prediction": PREDICTION, "make test": SUITE,
    }.items()
}  # fmt: skip
