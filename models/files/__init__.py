"""Models from files of other programs, as tables and as trees."""
