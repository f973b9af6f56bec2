"""How the face does its work: checks of what is given, stages, results. Users call none of it."""
