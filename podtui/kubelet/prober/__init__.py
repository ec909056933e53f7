"""Probes and lifecycle hooks of containers.

``state`` decides results without a clock; ``worker`` keeps and reports the runs of one probe;
``prober`` runs all workers; ``handlers`` and ``hooks`` connect to containers through ``dialing``,
``http_get`` and ``grpc_health``. h2 is imported with the first gRPC check, not before.
"""
