"""The client of peer Flower, imported by its simulation's processes; it trains with the tight loop."""

from collections import OrderedDict
from functools import cache

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from training_speed.workers.tight import TightClient
from training_speed.workloads import Cell, Workload

app = ClientApp()


@cache
def _client(workload: str) -> TightClient:
    """Return this process's client, which plays every client that the process is given."""
    torch.set_num_threads(1)
    return TightClient(Workload.from_json(workload))


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train one client for one round and report the steps that it did."""
    config, arrays = message.content["config"], message.content["arrays"].to_torch_state_dict()
    client, number = _client(str(config["workload"])), int(context.node_config["partition-id"])
    cell = Cell(int(config["seed"]), tuple(config["rates"]))
    # own generators throughout: only the cost is compared, and our named streams would be charged to the peer
    seed = cell.seed + 1000 * int(config["server-round"]) + number
    generator = torch.Generator().manual_seed(seed)  # one of its own, see above
    before = client.steps
    client.train(list(arrays.values()), number, cell.rate(number), generator)
    trained = OrderedDict(zip(arrays, client.tensors, strict=True))
    metrics = MetricRecord({"num-examples": 1, "steps": client.steps - before})
    return Message(RecordDict({"arrays": ArrayRecord(trained), "metrics": metrics}), reply_to=message)
