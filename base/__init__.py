"""The ground floor: checks of arguments, warnings, tables in notebooks, names that load late,
optional packages."""
