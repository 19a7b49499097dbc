"""Federated training: many client models advance together, by the code of a single one."""
