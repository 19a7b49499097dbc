"""What was tried for goals that are missed, and what bounds them; numbers stand in the pages that are named."""

RESNET = """
Three ways were measured side by side: autograd's double backward, trials mapped over by `torch.func`, and products of
gradients without forming them (`attacks/matching/module_gradients.py`), which is in use and the fastest
([attacks](attacks.md), by its column of GFLOP/s). Seven passes of a gradient's cost are asked for, in the library's
own convolutions: what is left above the bound is their share of the peak, and the passes over values between them.
"""
TEST = """
The suite is some thousand tests; a few dozen that start whole calls of Snakemake, a Slurm or a demo take more than
half of its processor time, because each has to begin as a user's call does. Ways that were taken: one fork server for
the steps of a call, one demo for all tests that look at it, and kept plans between calls. What is left is imports of
torch and Snakemake, once for each process that is what is tested.
"""
WHY = {"attack a2-ig": RESNET.strip(), "make test": TEST.strip()}
