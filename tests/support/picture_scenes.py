"""The steps to open each screen, for its pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from picture_objects import owned, rollout_event, secret_content, served
from picture_world import (
    ended_by_deletion,
    forwards,
    images,
    journal_entries,
    oom_killed_manifest,
    oom_killed_pod,
    plan,
    refused_plan,
    trashed,
    web_manifest,
    world,
)
from pictures import BIG, SMALL, Opens, Scene, Stage
from service_scene import INGRESSES, SERVICES, shop_objects, with_services
from textual.command import CommandPalette
from textual.screen import Screen
from tree_scene import rich
from tui_scene import FOLDER, FakeClient, event, full_client, gallery, manifests, node, usage
from why_objects import failing_deployment, ready_pod

from podtui.api.v1 import Pod
from podtui.client.protocol import CLUSTER, Server, Synced
from podtui.tui.commands import (
    copy_files,
    custom_runner,
    edit_manifest,
    edit_object,
    edit_record,
    label_node,
    restart,
)
from podtui.tui.commands import images as image_commands
from podtui.tui.commands import objects as object_commands
from podtui.tui.commands.agent import switch_dialog
from podtui.tui.commands.custom_commands import CommandTarget, CustomCommand
from podtui.tui.commands.delete import delete_dialog
from podtui.tui.commands.manifest_file import Rewrite
from podtui.tui.commands.open_url import url_picker
from podtui.tui.commands.port_forward import service_forward_dialog
from podtui.tui.commands.session import RecordChange, leave_dialog
from podtui.tui.screens import output_screen, trash_screen
from podtui.tui.screens.explain_screen import ExplainScreen
from podtui.tui.screens.forwards_screen import ForwardsScreen, stop_dialog
from podtui.tui.screens.help_screen import AliasesScreen, HelpScreen
from podtui.tui.screens.journal_screen import JournalScreen
from podtui.tui.screens.main.main_screen import MainScreen
from podtui.tui.screens.map_screen import MapScreen
from podtui.tui.screens.menu import Menu
from podtui.tui.screens.node.node_screen import NodeScreen
from podtui.tui.screens.object_why_screen import ObjectWhyScreen
from podtui.tui.screens.objects.kind_screen import KindScreen
from podtui.tui.screens.objects.kinds_screen import KindsScreen
from podtui.tui.screens.objects.object_screen import ObjectScreen, ValueScreen
from podtui.tui.screens.output_screen import OutputScreen
from podtui.tui.screens.pods.pod_screen import PodScreen
from podtui.tui.screens.text_screens import EventScreen, ManifestScreen
from podtui.tui.screens.trash_screen import TrashScreen
from podtui.tui.screens.tree_screen import TreeScreen
from podtui.tui.screens.why_screen import WhyScreen
from podtui.tui.widgets.cells import Span
from podtui.tui.widgets.columns import ColumnsScreen
from podtui.tui.widgets.dialogs import Dialog, Picker, TextDialog

WEB: Final = "uid-web"
MAIN_SIZES: Final = ((80, 24), (120, 36), (200, 60))
CONTEXTS: Final = Server(
    capabilities=CLUSTER, host="api.example:6443", context="prod-eu", cluster="eu-1", user="anne",
    contexts=("prod-eu", "prod-us", "staging"),
)  # fmt: skip
SCAN: Final = CustomCommand(
    name="scan", command=("printf", "%s\\n", "2 known faults:", "  CVE-2026-0001  zlib 1.2",
                          "ERROR  CVE-2026-0002  musl 1.2"),
)  # fmt: skip


def over(screen: Any) -> Opens:
    """Open a screen over the first; ``screen`` creates it."""

    def opens(stage: Stage) -> None:
        stage.app.push_screen(screen())

    return opens


def typed(line: str) -> Opens:
    """Type a command after ``:``."""

    def opens(stage: Stage) -> None:
        stage.app.run_command(line)

    return opens


def empty() -> FakeClient:
    client = FakeClient()
    client.fill((), (), (), (node(ready=False),))
    return client


def with_shop() -> FakeClient:
    client = full_client()
    client.fill((*gallery()[:5], rich()), (), manifests(), (node(),))
    return client


def with_oom_killed_pod() -> FakeClient:
    client = world()
    client.change(oom_killed_pod())
    client.change(oom_killed_manifest())
    return client


def cluster() -> FakeClient:
    """A cluster: neither files nor a node of ours."""
    client = FakeClient()
    client.namespace = ""  # type: ignore[attr-defined]
    client.usages = (usage("web", "85m", "96Mi"), usage("counter", "12m", "3Mi"))
    client.nodes_metrics = no_figures  # type: ignore[attr-defined]
    client.fill(gallery(), (event("web", "Scheduled", "Assigned default/web-n1 to n1"),), (),
                (node(),))  # fmt: skip
    return client


def with_objects() -> FakeClient:
    """An agent with a Deployment, its revisions and pods, and a Secret."""
    client = full_client()
    client.served = served()
    pods = tuple(owned(pod) for pod in gallery()[:2])
    client.fill((*pods, *gallery()[2:]), (rollout_event(),), manifests(), (node(),))
    return client


def with_failing_deployment() -> FakeClient:
    client = FakeClient()
    pods, items = failing_deployment()
    client.fill(pods, (), (), (node(),))
    for item in items:
        client.send(type(item), Synced((item,)))
    return client


def objects(list_of: str, *keys: str, text: str, shows: type[Screen[Any]], tab: str = "",
            size: tuple[int, int] = BIG, opened_by: str = "") -> Scene:  # fmt: skip
    return Scene(shows=shows, text=text, client=with_objects, opens=typed(list_of), keys=keys,
                 tab=tab, size=size, opened_by=opened_by)  # fmt: skip


def services(opens: Opens, text: str, shows: type[Screen[Any]], tab: str = "",
             size: tuple[int, int] = BIG) -> Scene:  # fmt: skip
    return Scene(shows=shows, text=text, client=with_services, select="", opens=opens, tab=tab,
                 size=size)  # fmt: skip


opened_service = over(lambda: ObjectScreen(SERVICES, shop_objects()["web"].metadata))
opened_ingress = over(lambda: ObjectScreen(INGRESSES, shop_objects()["ingress"].metadata))


async def no_figures() -> tuple[()]:
    return ()


def lose_agent(stage: Stage) -> None:
    client = stage.app.client
    assert isinstance(client, FakeClient)
    client.disconnect("no agent listens on /run/podtui.sock")


def show_trash(stage: Stage) -> None:
    stage.patch.setattr(trash_screen, "trashed_files", lambda folder: trashed())
    stage.app.push_screen(TrashScreen(Path(FOLDER)))


def show_forwards(stage: Stage) -> None:
    stage.app.session.forwards += forwards()
    stage.app.push_screen(ForwardsScreen())


def show_journal(stage: Stage) -> None:
    stage.app.session.journal += journal_entries()
    stage.app.push_screen(JournalScreen())


def begins(name: str) -> Opens:
    """Start an action of the main screen, or of the top screen."""

    def opens(stage: Stage) -> None:
        stage.app.call_later(stage.app.run_action, name, stage.app.screen)

    return opens


def choose_target(stage: Stage) -> None:
    ways = [CommandTarget(name, {"IMAGE": image}) for name, image in
            (("web-n1/nginx", "nginx:1.27"), ("web-n1/exporter", "busybox:1.36"))]  # fmt: skip
    stage.does("scan", lambda: custom_runner.run_on(stage.app.session, SCAN, [ways]))


def dialog(screen: Any, opened_by: str, text: str, size: tuple[int, int] = SMALL) -> Scene:
    return Scene(shows=Dialog, text=text, opens=over(screen), opened_by=opened_by, size=size)


def key(
    shows: type[Screen[Any]], text: str, *keys: str, select: str = "uid-crash-loop", **more: Any
) -> Scene:
    return Scene(shows=shows, text=text, select=select, keys=keys, **more)


def pod_tab(tab: str, text: str, *, select: str = WEB) -> Scene:
    screen = over(lambda: PodScreen(select, tab))
    return Scene(shows=PodScreen, text=text, select=select, opens=screen, tab=tab)


def node_tab(tab: str, text: str, *size: int, wish: str = "") -> Scene:
    scene = Scene(shows=NodeScreen, text=text, opens=over(lambda: NodeScreen(tab, wish)), tab=tab)
    return scene.sized(*size) if size else scene


def pods(*names: str) -> list[Pod]:
    return [pod for pod in gallery() if pod.metadata.uid.removeprefix("uid-") in names]


OVERVIEW: Final = {
    size: Scene(shows=MainScreen, text="CrashLoopBackOff", client=full_client, size=size)
    for size in MAIN_SIZES
}
FULL_SCREENS: Final = {
    "overview-empty": Scene(shows=MainScreen, text="No pods", select="", client=empty, size=SMALL,
                            settings={"simulated": True}),
    "overview-lost": Scene(shows=MainScreen, text="no agent listens", opens=lose_agent, size=SMALL),
    "overview-filter": key(MainScreen, "1 of 9", "slash", *"restarts>0", size=SMALL),
    "overview-cluster": Scene(shows=MainScreen, text="prod-eu", client=cluster,
                              settings={"server": CONTEXTS}),
    "logs": key(MainScreen, "upstream", "3", "plus"),
    "node-zoomed": key(MainScreen, "Ready", "4", "plus"),
    "pod": pod_tab("overview", "CrashLoopBackOff", select="uid-crash-loop"),
    "pod-timeline": pod_tab("timeline", "sandbox"),
    "pod-events": pod_tab("events", "BackOff", select="uid-crash-loop"),
    "pod-logs": pod_tab("logs", "upstream"),
    "pod-yaml": pod_tab("yaml", "kind", select="uid-crash-loop"),
    "pod-manifest": pod_tab("manifest", "kind"),
    "pod-resources": pod_tab("resources", "peak"),
    "pod-probes": pod_tab("probes", "statuscode: 503"),
    "node": node_tab("overview", "Ready"),
    "node-pods": node_tab("pods", "web-n1"),
    "node-history": node_tab("history", "memory", 80, 24),
    "node-images": node_tab("images", "shop:2025-10"),
    "node-rejected": node_tab("rejected", "too-big"),
    "node-what-if": node_tab("what-if", "dnsmasq", 80, 24, wish="cpu=4 hostPort=8080,53/UDP"),
    "why": key(WhyScreen, "What to do", "X"),
    "why-file": Scene(shows=WhyScreen, text="f shows the plan", size=SMALL,
                      opens=over(lambda: WhyScreen(None, "hello.yaml"))),
    "why-fix": key(WhyScreen, "Double the memory", "X", select="uid-hungry", size=SMALL,
                   client=with_oom_killed_pod),
    "why-object": Scene(shows=ObjectWhyScreen, text="code 3", select="", size=SMALL,
                        client=with_failing_deployment, opens=typed("why deploy/web")),
    "manifest": key(ManifestScreen, "imago", "1", "g", "enter", size=SMALL),
    "event": key(EventScreen, "Source", "2", "enter"),
    "tree": Scene(shows=TreeScreen, text="shop", select="", client=with_shop, size=SMALL,
                        opens=typed("tree"), keys=("end", "space")),
    "explain": Scene(shows=ExplainScreen, text="Fields", select="", size=SMALL,
                           opens=typed("explain spec.containers.livenessProbe")),
    "kinds": objects("kinds", text="deployments", shows=KindsScreen),
    "kind-list": objects("deploy", text="3/3", shows=KindScreen),
    "kind-list-small": objects("deploy", text="3/3", shows=KindScreen, size=SMALL),
    "object-pods": objects("deploy", "enter", text="counter-n1", shows=ObjectScreen, tab="pods"),
    "object-rollout": objects("deploy", "enter", "2", text="first version", shows=ObjectScreen,
                              tab="rollout"),
    "object-events": objects("deploy", "enter", "3", text="ScalingReplicaSet", shows=ObjectScreen,
                             tab="events"),
    "object-logs": objects("deploy", "enter", "4", text="upstream", shows=ObjectScreen,
                           tab="logs"),
    "object-yaml": objects("deploy", "enter", "5", text="kind: Deployment", shows=ObjectScreen,
                           tab="yaml", size=SMALL),
    "object-data": objects("secrets", "enter", text="password", shows=ObjectScreen, tab="data",
                           size=SMALL),
    "service-list": services(typed("svc"), "1/2", KindScreen),
    "service-network": services(opened_service, "30080", ObjectScreen, "network"),
    "service-network-small": services(opened_service, "30080", ObjectScreen, "network",
                                      size=SMALL),
    "ingress-network": services(opened_ingress, "shop.example", ObjectScreen, "network"),
    "map": services(typed("map"), "dbb", MapScreen),
    "map-small": services(typed("map"), "dbb", MapScreen, size=SMALL),
    "value": objects("secrets", "enter", "enter", text="open sesame", shows=ValueScreen,
                     size=SMALL),
    "trash": Scene(shows=TrashScreen, text="old.yaml", opens=show_trash, size=SMALL),
    "journal": Scene(shows=JournalScreen, text="docker start", opens=show_journal),
    "forwards": Scene(shows=ForwardsScreen, text="connection refused", opens=show_forwards),
    "own-output": Scene(shows=OutputScreen, text="exit status 0", size=SMALL,
                        opens=over(lambda: OutputScreen(
                            SCAN, [CommandTarget("web-n1/nginx", {})]))),
}  # fmt: skip
OVER_SCREENS: Final = {
    "help": key(HelpScreen, "main.filter", "question_mark", "i"),
    "commands": key(AliasesScreen, "quit", "ctrl+a"),
    "columns": key(ColumnsScreen, "always shown", "W"),
    "menu": key(Menu, "Delete", "m"),
    "palette": key(CommandPalette, "Pane", "ctrl+p", size=SMALL),
    "new-pod": key(Picker, "sidecar", "n", opened_by="create_pod.template_picker"),
    "new-pod-name": key(TextDialog, "Name of the pod", "n", "1", size=SMALL,
                        opened_by="create_pod.create_pod"),
    "delete": key(Dialog, "trash", "ctrl+d", select=WEB, opened_by="delete.delete_dialog"),
    "plan-refused": dialog(lambda: edit_manifest.plan_dialog("web.yaml", refused_plan()),
                           "edit_manifest.plan_dialog", "imago"),
    "prune-images": dialog(lambda: image_commands.prune_dialog(image_commands.prunable(images())),
                           "images.prune_dialog", "in total"),
}  # fmt: skip
DIALOGS: Final = {
    "debug": key(TextDialog, "Image of the debug container", "D", "1", select=WEB, size=SMALL,
                 opened_by="shell.start_debugger"),
    "copy-files": key(TextDialog, "copies to the container", "t", "1", select=WEB, size=SMALL,
                      opened_by="copy_files.transfer_files"),
    "forward": key(TextDialog, "The pod declares", "F", select=WEB, size=SMALL,
                   opened_by="port_forward.start_forward"),
    "pull-image": Scene(shows=TextDialog, text="docker pull", opens=begins("do('pull_image')"),
                        size=SMALL,
                        opened_by="images._ask_name"),
    "choose-container": key(Picker, "exporter", "ctrl+k", select=WEB, size=SMALL,
                            opened_by="restart.choose_container"),
    "log-range": key(Picker, "last 15m", "3", "R", size=SMALL, opened_by="logs_pane.action_range"),
    "choose-context": Scene(shows=Picker, text="staging", client=cluster, size=SMALL,
                            opens=typed("context"), settings={"server": CONTEXTS},
                            opened_by="app._ask_context"),
    "choose-namespace": Scene(shows=Picker, text="default", opens=typed("ns"), size=SMALL,
                              opened_by="main_screen.action_namespace"),
    "choose-namespace-of-list": objects("deploy", "n", text="2 objects", shows=Picker, size=SMALL,
                                        opened_by="kind_screen.action_namespace"),
    "scale": Scene(shows=TextDialog, text="2 replicas now", size=SMALL,
                   opens=over(lambda: object_commands.replicas_dialog("Deployment web", 2)),
                   opened_by="objects.replicas_dialog"),
    "plan-of-object": dialog(
        lambda: object_commands.plan_dialog(
            "Roll back Deployment web?",
            object_commands.diff_lines("image: nginx:2\n", "image: nginx:1\n"), "Roll back"),
        "objects.plan_dialog", "nginx:1"),
    "forward-service": Scene(
        shows=TextDialog, text="metrics", size=SMALL,
        opens=over(lambda: service_forward_dialog(shop_objects()["web"], ready_pod("web-1"))),
        opened_by="port_forward.service_forward_dialog"),
    "choose-url": Scene(
        shows=Picker, text="30081", size=SMALL,
        opens=over(lambda: url_picker(["http://127.0.0.1:30080/", "http://127.0.0.1:30081/"])),
        opened_by="open_url.url_picker"),
    "edit-object": dialog(
        lambda: edit_object.change_dialog(
            "Secret login", secret_content(b"old"), secret_content(b"newer")),
        "edit_object.change_dialog", "5 bytes, changed"),
    "own-choose": Scene(shows=Picker, text="select a container", opens=choose_target, size=SMALL,
                        opened_by="custom_runner._choose"),
    "delete-several": dialog(
        lambda: delete_dialog([web_manifest(), manifests()[0]],
                              [ended_by_deletion(), "the agent does not answer"]),
        "delete.delete_dialog", "2 files"),
    "delete-in-cluster": dialog(
        lambda: delete_dialog([], [], pods("web", "counter")),
        "delete.delete_dialog", "no undo"),
    "label-node": dialog(lambda: label_node.label_dialog("n1", (("disk", "ssd"),)),
                         "label_node.label_dialog", "disk=ssd"),
    "restart": dialog(lambda: restart.restart_dialog(pods("web", "batch", "crash-loop")),
                      "restart.restart_dialog", "Restart 3 pods"),
    "restart-container": key(Dialog, "Restart app", "ctrl+k", size=SMALL,
                             opened_by="restart.container_dialog"),
    "rewrite": dialog(
        lambda: edit_manifest.rewrite_dialog(
            Rewrite(Path("web.yaml"), b"a: 1\nb: 2\n", b"a: 1\nb: 3\n", "set b"),
            "Set b?", "Apply", plan()),
        "edit_manifest.rewrite_dialog", "Set b?"),
    "plan": dialog(lambda: edit_manifest.plan_dialog("web.yaml", plan()),
                   "edit_manifest.plan_dialog", "Apply and replace"),
    "plan-missing": dialog(
        lambda: edit_manifest.plan_dialog("web.yaml", None, "no agent listens on /run/podtui.sock"),
        "edit_manifest.plan_dialog", "Save anyway"),
    "file-changed": dialog(
        lambda: edit_manifest.changed_dialog("web.yaml", "web.yaml was written by another process"),
        "edit_manifest.changed_dialog", "Overwrite"),
    "refused-record": dialog(
        lambda: edit_record.refusal_dialog(
            "web", 'Pod "web" is invalid: spec: Forbidden', edit_manifest.KEEP_DRAFT),
        "edit_record.refusal_dialog", "Edit again"),
    "fix-record": dialog(
        lambda: edit_record.change_dialog(
            RecordChange(pods("web")[0], "a: 1\nb: 2\n", "a: 1\n", "Remove the hostPort"),
            edit_record.UpdateMethod(edit_record.RECREATE), "Remove the hostPort?", "Apply"),
        "edit_record.change_dialog", "Delete and create again"),
    "edit-record": dialog(
        lambda: edit_record.edit_dialog(
            RecordChange(pods("web")[0], "a: 1\nb: 2\n", "a: 1\n", "edit"),
            edit_record.UpdateMethod(edit_record.RECREATE, 'Pod "web" is invalid: spec: Forbidden'),
            changed=True),
        "edit_record.edit_dialog", "Delete and create again"),
    "saved-pod": dialog(
        lambda: edit_record.saved_dialog("web-n1"), "edit_record.saved_dialog", "Create it"),
    "remove-image": dialog(lambda: image_commands.removal_dialog(images()[3]),
                           "images.removal_dialog", "Remove image"),
    "overwrite": dialog(lambda: copy_files.overwrite_dialog(Path("hosts")),
                        "copy_files.overwrite_dialog", "overwritten"),
    "stop-forward": dialog(lambda: stop_dialog(forwards()[0]), "forwards_screen.stop_dialog",
                           "open connection"),
    "end-command": dialog(lambda: output_screen.end_dialog("scan web-n1/nginx"),
                          "output_screen.end_dialog", "still running"),
    "quit": dialog(
        lambda: leave_dialog("Quit", [(Span("✖ ", "error"), Span("unsaved edit of web.yaml"))]),
        "session.leave_dialog", "web.yaml"),
    "switch-folder": dialog(
        lambda: switch_dialog("./static_pods", "./wild", pods("web", "counter")),
        "agent.switch_dialog", "instead of"),
    "own-question": dialog(
        lambda: custom_runner.question(
            SCAN, [CommandTarget("web-n1/nginx", {}), CommandTarget("counter-n1/count", {})]
        ),
        "custom_runner.question", "Run scan"),
}  # fmt: skip
"""Dialogs without a picture: they look like others, so only their text is compared."""
PICTURES: Final = {**FULL_SCREENS, **OVER_SCREENS}
SCENES: Final = {**PICTURES, **DIALOGS}
