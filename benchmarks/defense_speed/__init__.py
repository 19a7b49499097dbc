"""What a training step costs under each defense."""
