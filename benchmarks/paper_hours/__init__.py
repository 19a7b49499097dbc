"""What scale `paper` asks of a GPU, on paper: operations, bytes and launches of every item, and what decides."""
