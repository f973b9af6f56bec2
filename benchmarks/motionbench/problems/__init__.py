"""Problems as declarations; every module has PROBLEMS."""
