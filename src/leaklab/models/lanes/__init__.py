"""Small convolutional networks in vectors of samples: compiled where the machine has a compiler."""
