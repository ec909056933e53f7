"""The agent: kubelet, records and server in one process, one agent per root directory.

``lock`` detects a running agent, ``run`` is the agent process, ``control`` starts and stops agents,
``cleanup`` removes what a stopped agent left. Only ``run`` and ``cleanup`` import the kubelet and
the runtime.
"""
