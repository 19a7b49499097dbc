"""How fast gradient inversion is: this project's engine beside a plain loop and the published package breaching."""
