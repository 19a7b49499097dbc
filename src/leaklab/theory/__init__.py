"""Numerical checks of theorems, algorithms, protocols and drawings, one file each (see ``base.Check``)."""
