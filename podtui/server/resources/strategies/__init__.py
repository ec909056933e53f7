"""How the objects of each resource are created and changed: plain functions on data."""
