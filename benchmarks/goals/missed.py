"""What was tried for goals that are missed, and what bounds them; numbers stand in the pages that are named."""

RESNET = """
Five ways stand side by side in [ways to an evaluation](attack_ways.md): autograd's double backward, one trial after
another and by `torch.func`, each memory layout, and products of gradients that are never formed
(`attacks/matching/module_gradients.py`), which is in use and the fastest. All that matters is done by the library's own
convolutions: the same page says at which share of the peak they run here and in a plain gradient of one image, and what
the operations would take at the peak, with nothing between them, which leaves little room below the goal. Compiled
steps know no residual networks.
"""
PICTURE = """
Ours and breaching's analytic attack read the image off by one division, exactly. [Parts of an exact
reading](time_to_picture_parts.md) has ours piece by piece, and beside it three other ways: without the first weights
that torch draws, with the network at hand, and all updates in one call. What bounds it from below is the division with
the checks around it; most of the time goes into building the network, which says where its first layer is and how
images were normalised.
"""
SWEEP = """
Plain and tight loops, pfl, Flower, fedjax and our own engine without a compiler stand side by side with ours in
[training](training.md). What bounds compiled steps layer by layer stands in the [roofline](roofline.md): near 100 % of
matrix products of the same shapes a larger ratio needs a faster processor.
"""
COMMANDS = """
Each way that was measured has a row in [operations](operations.md), with the seconds without it: runs of items kept,
items kept, pictures kept, templates kept as compiled, the scoreboard's protections kept, tables read by column, garbage
left alone, numbers without intervals where none is shown. What is left are parts that one process does one after
another, each a row there too: imports, tables, findings, pages.
"""
SMALL = """
What was measured stands job by job, before and after, in [hours of small](small_hours.md): a score, searches and
trainings, by older code and by that of today; the records that the hours are added up from were made by older code, and
the same page says what they would come to if jobs gained what those like them did. What bounds it: the page counts the
products of all jobs and the hours that they would take at the peak of a core. Most of those are trainings of
convolutional networks, whose compiled steps are near it ([roofline](roofline.md)), and which gain little where those of
torch are, too; searches on small networks take most of what is left, and are far from it.
"""
PREDICTION = """
Three ways were taken, and [growth](growth.md) says item by item what came of them: curves in place of constants, times
that each plug-in declares, and the share of its evaluations that a search usually makes. The records are of older code
and of several machines: where attacks became faster since, the plan says less than they took. When a search ends is not
known before it does.
"""
SUITE = """
The suite is over ten thousand tests; those that start whole calls of Snakemake, a Slurm or a demo weigh most. Ways that
were taken: one process that has loaded the libraries, of which commands of tests and their steps are forked, one demo
for all tests that look at it and whose runs other checkouts take over, kept plans between calls, and torchvision
imported by those alone who need it. What is left is a long tail, below: no file of tests takes a tenth of the time, so
that no single one of them can give what is missing; two cores would have to do what is now several times their time.
"""
DEMO = """
Ways that were taken: one fork server for the steps of a call, which imports while a first call is planned and forks
when it has all, libraries imported by those alone who need them, templates kept as compiled; three jobs side by side on
two cores saved some seconds in one run (`make demo CORES=3`, a line of `goals.csv`). Below stands what its jobs take:
more than the goal allows one core, and less than two. Cores without a job that is ready are what is left, at the
beginning, where the server imports, and at the end, where verdict and report come one after the other.
"""
WHY = {
    key: " ".join(text.split())
    for key, text in {
        "attack a2-ig": RESNET, "picture mlp-1": PICTURE, "sweep": SWEEP, "commands": COMMANDS, "small": SMALL,
        "prediction": PREDICTION, "make demo": DEMO, "make test": SUITE,
    }.items()
}  # fmt: skip
