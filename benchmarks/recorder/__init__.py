"""What recording costs: of an exchange, beside the disk, and of a round of Flower."""
