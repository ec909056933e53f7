"""The scheduler: chooses a node for each pod that has none, as a client of the API."""
