"""Implementation of the face: checks of arguments, stages, results. Nothing here is public."""
