"""How long until there is a picture: this project's attackers beside plain loops and the package breaching."""
