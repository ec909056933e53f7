"""The agent: kubelet, records and server in one process, one agent per root directory.

``lock`` detects a running agent, ``run`` is the agent process, ``control`` starts, stops and cleans
up agents. Only ``run`` and ``control`` import the kubelet and the other packages.
"""
