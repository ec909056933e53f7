"""The screens of objects of any kind: the kinds, the objects of a kind, one object."""
