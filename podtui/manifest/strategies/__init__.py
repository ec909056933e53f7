"""The strategies for writing the objects of each resource: plain functions on data."""
