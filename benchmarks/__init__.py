"""The figures podtui holds itself to, each a ratio to a floor measured in the same run."""
