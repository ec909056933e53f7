"""Probes and lifecycle hooks of containers.

``state`` decides results and knows no clock; ``worker`` runs a probe periodically; ``prober`` owns
the workers; ``handlers`` and ``hooks`` reach into containers through ``address``, ``http_get``,
``tcp`` and ``grpc_health``. h2 is imported with the first gRPC check, not before.
"""
