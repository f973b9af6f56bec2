"""Records of walking and running with plates: some come along, others are in a folder of yours."""
