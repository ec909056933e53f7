"""Plugins of the kubelet: their sockets, their registration, and calls of device plugins.

The modules ``rpc``, ``plugin_calls`` and ``registration`` import grpclib. They are imported when a
plugin registers, not before.
"""
