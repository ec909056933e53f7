"""Probes and life-cycle hooks: what is asked of a container, when, and what the answer means.

``state`` decides and knows no time; ``worker`` asks again and again; ``prober`` owns the workers;
``handlers`` and ``hooks`` reach into containers through ``address``, ``http_get`` and ``tcp``.
aiohttp is loaded when the first HTTP request is made, not before.
"""
