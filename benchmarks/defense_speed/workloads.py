"""What is trained under each defense."""

from dataclasses import replace

from training_speed.workloads import Workload

# steps of each client that a published loop does: a step costs it hundreds of ordinary ones
LOOP_STEPS = 1

WORKLOADS = (
    Workload(
        name="lenet",
        title="LeNet of four convolutions, 28x28, batches of 32, six clients together",
        model="dlg-lenet",
        image_shape=(1, 28, 28),
        clients=6,
        participants=6,
        samples=640,
        local_steps=80,
        batch_size=32,
        momentum=0.0,
        weight_decay=0.0,
        seeds=(1024,),
        settings=((0.01,),),
        rounds=1,
        quick_rounds=1,
    ),
)
QUICK = ("lenet",)


def of_loop(workload: Workload) -> Workload:
    """Return the same work with so few steps that a loop can do them: one client, ``LOOP_STEPS``."""
    return replace(workload, clients=1, participants=1, local_steps=LOOP_STEPS)
