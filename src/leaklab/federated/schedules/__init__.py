"""How the nominal learning rate changes from round to round, one schedule a file."""
