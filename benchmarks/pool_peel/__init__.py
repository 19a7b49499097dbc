"""What pool-peel reads of networks with max pooling, beside annealed MAP."""
