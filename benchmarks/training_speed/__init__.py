"""How fast federated training is: this project's engine beside plain loops and three published simulators."""
