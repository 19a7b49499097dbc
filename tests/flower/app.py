"""A Flower app of an outsider with two clients on a simulated network: ``python app.py SCENARIO FOLDER``.

It is a program of its own, since Ray's workers get by value what a program defines.
"""

import sys

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, fixedclipping_mod
from flwr.common import ndarrays_to_parameters
from flwr.server import LegacyContext, ServerAppComponents, ServerConfig
from flwr.server import ServerApp as LegacyServerApp
from flwr.server.strategy import FedAvg as LegacyFedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import DifferentialPrivacyClientSideFixedClipping, FedAvg
from flwr.simulation import run_simulation
from torch import nn
from torch.nn import functional as F

import leaklab

CLIENTS, ROUNDS, RATE, CLIP = 2, 3, 0.1, 1e-3


def network():
    """Return a network with buffers, in float64, so that what is read can be exact."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)).double().eval()


def trained(model, private, context, number):
    """Train one step on one sample, which the client tells its auditor."""
    generator = torch.Generator().manual_seed(context.node_id % 2**32 + number)
    inputs, targets = torch.rand(1, 20, generator=generator, dtype=torch.float64), torch.tensor([number % 3])
    leaklab.record_truth(private, inputs, targets, node=context.node_id, round=number, run=context.run_id)
    F.cross_entropy(model(inputs), targets).backward()
    torch.optim.SGD(model.parameters(), RATE).step()
    return model.state_dict()


def current(folder, mods, wrapped=lambda strategy: strategy, emptying=False):
    """Return both sides of the message API; the client may empty what it was given, unless a mod needs it later."""
    app = ClientApp(mods=mods)

    @app.train()
    def train(message, context):
        model = network()
        model.load_state_dict(message.content["arrays"].to_torch_state_dict(keep_input=not emptying))
        state = trained(model, f"{folder}/private", context, message.content["config"]["server-round"])
        content = {"arrays": ArrayRecord(dict(state)), "metrics": MetricRecord({"num-examples": 1, "loss": 0.5})}
        return Message(RecordDict(content), reply_to=message)

    server = ServerApp()

    @server.main()
    def main(grid, context):
        strategy = wrapped(FedAvg(fraction_evaluate=0.0, min_available_nodes=CLIENTS))
        arrays = ArrayRecord(dict(network().state_dict()))
        found = strategy.start(grid, arrays, num_rounds=ROUNDS, train_config=ConfigRecord({"lr": RATE}))
        assert len(found.train_metrics_clientapp) == ROUNDS, "a client failed"

    return app, server


class Client(NumPyClient):
    """The legacy API: arrays in the order of the state, without names."""

    def __init__(self, folder, context):
        self.folder, self.context = folder, context

    def fit(self, parameters, config):
        model = network()
        model.load_state_dict(dict(zip(model.state_dict(), map(torch.as_tensor, parameters), strict=True)))
        state = trained(model, f"{self.folder}/private", self.context, config["round"])
        return [value.numpy() for value in state.values()], 1, {"loss": 0.5}


def legacy(folder, mods, **workflow):
    """Return both sides of the legacy API."""
    app = ClientApp(lambda context: Client(folder, context).to_client(), mods=mods)
    first = ndarrays_to_parameters([value.numpy() for value in network().state_dict().values()])
    strategy = LegacyFedAvg(
        fraction_evaluate=0.0,
        min_available_clients=CLIENTS,
        initial_parameters=first,
        on_fit_config_fn=lambda number: {"round": number, "lr": RATE},
        accept_failures=False,
    )
    if not workflow:
        components = ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=ROUNDS))
        return app, LegacyServerApp(server_fn=lambda context: components)
    server = LegacyServerApp()

    @server.main()
    def main(grid, context):
        context = LegacyContext(context=context, config=ServerConfig(num_rounds=ROUNDS), strategy=strategy)
        DefaultWorkflow(**workflow)(grid, context)

    return app, server


def clipping(strategy):
    return DifferentialPrivacyClientSideFixedClipping(strategy, 0.0, CLIP, CLIENTS)


def scenario(name, folder):
    """Return the client's and the server's app; recorders have other mods inside of them or around."""
    record = leaklab.flower.record
    leaves, inner = record(f"{folder}/leaves"), record(f"{folder}/inner")
    if name == "current":
        return current(folder, [record(every=2), record("/proc/nowhere")], emptying=True)
    if name == "clipping":
        return current(folder, [leaves, fixedclipping_mod, inner], clipping)
    if name == "noise":
        return current(folder, [leaves, LocalDpMod(1.0, 1e-3, 10.0, 1e-5), inner])
    if name == "legacy":
        return legacy(folder, [leaves])
    masks = SecAggPlusWorkflow(num_shares=1.0, reconstruction_threshold=1.0)
    return legacy(folder, [leaves, secaggplus_mod, inner], fit_workflow=masks)


if __name__ == "__main__":
    client_app, server_app = scenario(*sys.argv[1:])
    # two processes write into one folder; for the other scenarios one is enough, and half as long in starting
    processes = 2 if sys.argv[1] == "current" else 1
    backend = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": processes}}
    run_simulation(server_app, client_app, num_supernodes=CLIENTS, backend_config=backend)
