"""What can be read of ResNet-20 by what pool-peel taught, and what stands in between."""
