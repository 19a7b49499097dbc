"""One file per way of dealing a training set to clients (see ``base.Partition``)."""
