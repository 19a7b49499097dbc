"""What is proven of one round of a dozen kinds of clients, and how often a certificate is false."""
