"""The rows about how a Service or an Ingress is reached, and those of who connects to whom."""

from __future__ import annotations

from typing import Any

from service_scene import WEB, shop_objects
from why_objects import crashing_pod, inventory, make, ready_pod

from podtui.client.any_kind import TableColumn, TableRow
from podtui.tui.views.map import map_rows
from podtui.tui.views.objects.network import network_entries, network_rows, with_endpoints
from podtui.why.connections import broken, connections
from podtui.why.inventory import Inventory


def shop(**more: Any) -> tuple[dict[str, Any], Inventory]:
    items = shop_objects() | more
    pods = (ready_pod("web-1", labels=WEB), crashing_pod("web-2", labels=WEB))
    return items, inventory(*items.values(), *pods)


def texts(item: Any, all_of: Inventory) -> list[str]:
    return [
        " ".join(filter(None, (each.what, each.value, each.state, each.detail)))
        for each in network_entries(all_of, item)
    ]


def test_a_service_has_urls_names_ports_and_endpoints() -> None:
    items, all_of = shop()
    full = "web.default.svc.cluster.local"
    assert texts(items["web"], all_of) == [
        "URL http://127.0.0.1:30080/ → 80/TCP http",
        f"name {full} → 10.96.41.7",
        f"name _http._tcp.{full} → SRV, port 80",
        f"name _metrics._tcp.{full} → SRV, port 9102",
        "port 80/TCP http → http of the pods, node port 30080",
        "port 9102/TCP metrics → 9102 of the pods",
        "endpoint 10.244.0.1:8080 ● ready web-1",
        "endpoint 10.244.0.2:8080 ✖ not ready web-2: exit code 3",
    ]


def test_an_endpoint_knows_its_pod_and_a_url_can_be_opened() -> None:
    items, all_of = shop()
    entries = network_entries(all_of, items["web"])
    assert entries[0].url == entries[0].value
    assert [entry.pod for entry in entries[-2:]] == ["uid-Pod-web-1", "uid-Pod-web-2"]


def test_a_headless_service_has_names_of_its_pods() -> None:
    headless = make("Service", "db", spec={"selector": {"app": "db"}, "clusterIP": "None",
                                           "ports": [{"port": 5432}]})  # fmt: skip
    piece = make(
        "EndpointSlice", "db-1", labels={"kubernetes.io/service-name": "db"}, addressType="IPv4",
        ports=[{"port": 5432}],
        endpoints=[{"addresses": ["10.244.0.9"], "hostname": "db-0"}],
    )  # fmt: skip
    assert texts(headless, inventory(headless, piece)) == [
        "name db.default.svc.cluster.local → the address of its ready endpoint",
        "name db-0.db.default.svc.cluster.local → 10.244.0.9",
        "port 5432/TCP no mapping: clients connect to the port of the pods",
        "endpoint 10.244.0.9:5432 ● ready",
    ]


def test_another_name_of_a_host() -> None:
    item = make("Service", "db", spec={"type": "ExternalName", "externalName": "db.example"})
    assert texts(item, inventory(item)) == [
        "name db.default.svc.cluster.local → CNAME db.example"
    ]  # fmt: skip


def test_a_pod_without_an_address_is_listed() -> None:
    items, _ = shop()
    all_of = inventory(items["db"], crashing_pod("db-1", labels={"app": "db"}))
    assert texts(items["db"], all_of)[-1] == (
        "endpoint no address yet ✖ not ready db-1: exit code 3"
    )


def test_an_ingress_has_urls_and_routes() -> None:
    items, all_of = shop()
    assert texts(items["ingress"], all_of) == [
        (
            "URL http://shop.example.localhost:8080/ as http://shop.example:8080/ once shop.example"
            " leads to 127.0.0.1:8080"
        ),
        (
            "URL http://shop.example.localhost:8080/cart as http://shop.example:8080/cart once"
            " shop.example leads to 127.0.0.1:8080"
        ),
        "route shop.example/ ● ok → web:http",
        (
            "route shop.example/cart ✖ broken → cart:80  there is no Service cart in the namespace"
            " default"
        ),
    ]


def test_the_list_of_services_counts_ready_endpoints() -> None:
    items, all_of = shop()
    columns = (TableColumn("Name"), TableColumn("Type"))
    row = TableRow(items["web"].metadata, ("web", "NodePort"), columns)
    shown = with_endpoints(all_of, row)
    assert shown.cells == ("web", "1/2", "NodePort")
    assert [column.name for column in shown.columns] == ["Name", "Ready", "Type"]
    other = make("Service", "x", spec={"type": "ExternalName", "externalName": "a.example"})
    row = TableRow(other.metadata, ("x", "ExternalName"), columns)
    assert with_endpoints(inventory(other), row).cells == ("x", "", "ExternalName")


def test_a_copied_row_is_its_value() -> None:
    items, all_of = shop()
    rows = network_rows(network_entries(all_of, items["web"]))
    assert next(row.summary for _, row in rows.values()) == "http://127.0.0.1:30080/"


def test_the_map_has_each_connection_once_and_marks_the_broken_ones() -> None:
    _, all_of = shop()
    edges = connections(all_of)
    rows = [[cell.text for cell in row.cells] for _, row in map_rows(edges).values()]
    assert rows == [
        ["deploy/shop", "dbb", "5432", "✖ broken", "front: env DATABASE_URL",
         "there is no Service dbb in the namespace default; perhaps db is meant"],
        ["deploy/shop", "db", "-", "▲ broken?", "front: env STORE_HOST",
         "(guess) it has no endpoints"],
        ["deploy/shop", "web", "9100", "✖ broken", "front: args",
         "it has no port 9100, but 80, 9102"],
        ["ing/shop", "web", "80", "● ok", "route shop.example/", ""],
        ["ing/shop", "cart", "80", "✖ broken", "route shop.example/cart",
         "there is no Service cart in the namespace default"],
    ]  # fmt: skip
    assert len(broken(edges)) == 4
    assert all("secret" not in cell for row in rows for cell in row)
