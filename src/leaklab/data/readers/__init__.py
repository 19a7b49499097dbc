"""One file per distribution format; each turns checked files into arrays (see ``base.Reader``)."""
