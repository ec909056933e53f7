"""The agent: the kubelet, its records and its server in one process, one per root directory.

``lock`` tells whether one runs, ``run`` is the process itself, ``control`` starts, stops and clears
up after it. Only ``run`` and ``control`` import the rooms behind.
"""
