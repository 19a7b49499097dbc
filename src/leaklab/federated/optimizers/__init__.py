"""How clients step, one optimizer a file (see ``base.Optimizer``)."""
