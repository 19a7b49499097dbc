"""What is trained by each algorithm: the network and batch of HyperFL's tables."""

from dataclasses import replace

from training_speed.workloads import Workload

# steps of a client that a loop over samples does: one costs it dozens of ordinary ones
LOOP_STEPS = 6

FOUR = Workload(
    name="cnn",
    title="CNN of HyperFL's tables, 28x28, batches of 50, four clients together",
    model="cnn-leaky",
    image_shape=(1, 28, 28),
    clients=4,
    participants=4,
    samples=600,
    local_steps=24,
    batch_size=50,
    momentum=0.5,
    weight_decay=5e-4,
    seeds=(520,),
    settings=((0.02,),),
    rounds=3,
    quick_rounds=1,
)
WORKLOADS = (
    FOUR,
    # as the items train: clients of a round begin with the same heads, which are read once for all of them
    replace(
        FOUR,
        name="cnn-20",
        title="CNN of HyperFL's tables, 28x28, batches of 50, the 20 clients of a table together",
        clients=20,
        participants=20,
        rounds=1,
    ),
)
QUICK = ("cnn",)


def of_loop(workload: Workload) -> Workload:
    """Return the same work for one client, with so few steps that a loop can do them."""
    return replace(workload, clients=1, participants=1, local_steps=LOOP_STEPS, rounds=1)


def alone(workload: Workload) -> Workload:
    """Return the same work for one client: what a program without clients does."""
    return replace(workload, clients=1, participants=1)
