"""Networks, their initialisations and their description."""
