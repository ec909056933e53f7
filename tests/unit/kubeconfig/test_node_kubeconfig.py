from __future__ import annotations

from pathlib import Path

from podtui.kubeconfig import Cluster, choose, load, node_kubeconfig


def test_the_kubeconfig_of_a_node_keeps_what_reaches_the_cluster(tmp_path: Path) -> None:
    for cluster in (
        Cluster(name="a", server="https://a:6443", ca_data=b"PEM", tls_server_name="b"),
        Cluster(name="a", server="https://a:6443", ca_file=Path("/ca"), proxy_url="http://p:1"),
        Cluster(name="a", server="https://a:6443", insecure=True),
    ):
        path = tmp_path / "kubeconfig"
        path.write_bytes(node_kubeconfig(cluster, Path("/pki/current.pem")))
        target = choose(load(path, {}))
        for name in ("server", "ca_data", "ca_file", "insecure", "tls_server_name", "proxy_url"):
            assert getattr(target.cluster, name) == getattr(cluster, name)
        assert target.user.cert_file == target.user.key_file == Path("/pki/current.pem")
        assert target.context.name == "default-context"
