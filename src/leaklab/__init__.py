"""How much private data federated learning leaks through its updates, and what a defense really buys."""
