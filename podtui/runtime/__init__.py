"""The container runtime: sandboxes, containers and images. Makes no decisions about pods.

``protocol`` is the contract with the verbs of CRI. ``docker`` implements it on an engine,
``memory`` simulates one. One contract suite (``tests/contract``) holds both to the same behaviour.
"""
