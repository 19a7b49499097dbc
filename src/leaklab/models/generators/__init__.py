"""Class-conditional image generators: the prior of generative attacks."""
