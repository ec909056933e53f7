"""Probes and life-cycle hooks: what is asked of a container, when, and what the answer means.

``state`` decides and knows no time; ``worker`` asks again and again; ``prober`` owns the workers;
``handlers`` and ``hooks`` reach into containers through ``address``, ``http_get``, ``tcp`` and
``grpc_health``. aiohttp and h2 are loaded when the first request is made, not before.
"""
