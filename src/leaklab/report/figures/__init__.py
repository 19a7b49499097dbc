"""One renderer per kind of figure, and the style they share."""
