"""What runs. Owns the truth of sandboxes, containers and images; decides nothing.

``protocol`` is the contract in CRI's verbs; ``docker`` drives an engine, ``memory`` simulates one,
and one contract suite (``tests/contract``) holds both to the same behaviour.
"""
