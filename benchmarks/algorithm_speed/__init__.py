"""The fourth part of the benchmark: local steps of HyperFL, of its baselines and of DP-SGD done in other ways."""
