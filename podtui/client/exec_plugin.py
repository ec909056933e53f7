"""Exec plugins: commands that a kubeconfig names, which say who one is to its cluster.

The protocol is Kubernetes' ``client.authentication.k8s.io``, versions v1 and v1beta1: what is asked
goes into ``KUBERNETES_EXEC_INFO``, what is answered is one ``ExecCredential`` on the standard
output. There is no shell between.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from podtui.api.reading import decoded
from podtui.errors import PodtuiError
from podtui.kubeconfig.types import Cluster, ExecPlugin, Target

PLUGIN_SECONDS: Final = 60.0
TERMINAL_SECONDS: Final = 600.0
"""For one that asks a person."""
KILLED_SECONDS: Final = 5.0
MAX_ANSWER: Final = 1024 * 1024
_LONGEST_COMPLAINT: Final = 400


class PluginError(PodtuiError):
    """Raised where a plugin gives no credentials; the text holds nothing of its answer."""


@dataclass(frozen=True, slots=True)
class Credential:
    """Certificate and key are PEM, both or none; ``expires`` None: not known to."""

    token: str = field(default="", repr=False)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    expires: datetime | None = None


class _Status(msgspec.Struct, frozen=True):
    expirationTimestamp: datetime | None = None
    token: str = ""
    clientCertificateData: str = ""
    clientKeyData: str = ""


class _Answer(msgspec.Struct, frozen=True):
    apiVersion: str = ""
    kind: str = ""
    status: _Status | None = None


async def run_plugin(target: Target, *, interactive: bool) -> Credential:
    """Run the user's plugin. ``interactive``: it may talk with the person at this terminal.

    Raises `PluginError`. It is killed where it takes longer than it may, or when this is cancelled.
    """
    plugin = target.user.exec
    assert plugin is not None
    mode = plugin.interactive_mode or "IfAvailable"
    if mode == "Always" and not interactive:
        raise PluginError(
            f"{plugin.command} has to ask you something and needs the terminal: leave podtui and"
            " start it again"
        )
    talks = interactive and mode != "Never"
    environment = await asyncio.to_thread(_environment, plugin, target.cluster, talks)
    status, answer, complaint = await _run(plugin, environment, talks)
    if status:
        raise PluginError(_words(f"{plugin.command} ended with status {status}", complaint, plugin))
    return read_answer(answer, plugin)


def exec_info(plugin: ExecPlugin, cluster: Cluster, interactive: bool) -> dict[str, Any]:
    """What the plugin is told, as JSON has it."""
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.provide_cluster_info:
        told = {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure,
            "certificate-authority-data": base64.b64encode(_authority(cluster)).decode(),
            "proxy-url": cluster.proxy_url,
            "config": cluster.exec_config,
        }
        spec["cluster"] = {name: value for name, value in told.items() if value}
    return {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}


def _authority(cluster: Cluster) -> bytes:
    if cluster.ca_data or cluster.ca_file is None:
        return cluster.ca_data
    try:
        return cluster.ca_file.read_bytes()
    except OSError as error:
        raise PluginError(f"{cluster.ca_file}: {error.strerror}") from error


def _environment(plugin: ExecPlugin, cluster: Cluster, talks: bool) -> dict[str, str]:
    info = json.dumps(exec_info(plugin, cluster, talks))
    return {**os.environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": info}


async def _run(
    plugin: ExecPlugin, environment: dict[str, str], talks: bool
) -> tuple[int, bytes, bytes]:
    """(exit status, standard output, standard error unless the person saw that)."""
    pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env=environment,
            stdin=None if talks else none,
            stdout=pipe,
            stderr=None if talks else pipe,
            # What it starts goes with it; at a terminal it must stay in the foreground.
            start_new_session=not talks,
        )
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise PluginError(_words(f"cannot run {plugin.command}: {why}", b"", plugin)) from None
    try:
        async with asyncio.timeout(TERMINAL_SECONDS if talks else PLUGIN_SECONDS):
            async with asyncio.TaskGroup() as group:
                out = group.create_task(_bounded(process.stdout))
                err = group.create_task(_bounded(process.stderr))
            return await process.wait(), out.result(), err.result()
    except TimeoutError:
        if not talks:
            # It may have ended, and left somebody who holds its output.
            _kill_all(process)
        raise PluginError(f"{plugin.command} takes too long: it was killed") from None
    finally:
        await _end(process, group=not talks)


async def _bounded(stream: asyncio.StreamReader | None) -> bytes:
    """All of it, of which no more than `MAX_ANSWER` is kept."""
    kept = b""
    while stream is not None and (piece := await stream.read(65536)):
        kept = (kept + piece)[: MAX_ANSWER + 1]
    return kept


async def _end(process: asyncio.subprocess.Process, *, group: bool) -> None:
    if process.returncode is not None:
        return
    if group:
        _kill_all(process)
    else:
        with suppress(ProcessLookupError):
            process.kill()
    async with asyncio.timeout(KILLED_SECONDS):
        await process.wait()


def _kill_all(process: asyncio.subprocess.Process) -> None:
    """It and what it started; its group keeps its number for as long as one of them is there."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _words(what: str, complaint: bytes, plugin: ExecPlugin) -> str:
    said = complaint.decode(errors="replace").strip()[-_LONGEST_COMPLAINT:]
    hint = plugin.install_hint.strip()[:_LONGEST_COMPLAINT] if what.startswith("cannot") else ""
    return "; ".join(
        part for part in (what, " ".join(said.split()), " ".join(hint.split())) if part
    )


def read_answer(answer: bytes, plugin: ExecPlugin) -> Credential:
    """Raises `PluginError` for what is no credential."""
    if len(answer) > MAX_ANSWER:
        raise PluginError(f"{plugin.command} answered with more than {MAX_ANSWER >> 20} MiB")
    try:
        found = decoded(answer, msgspec.json.Decoder(_Answer))
    except msgspec.MsgspecError:
        # Without the cause, whose text may quote the answer.
        raise PluginError(f"{plugin.command} answered with no ExecCredential") from None
    if found.kind != "ExecCredential" or found.apiVersion != plugin.api_version:
        raise PluginError(
            f"{plugin.command} was to answer with an ExecCredential of {plugin.api_version}, and"
            f" answered with {found.kind[:60] or 'no kind'} of {found.apiVersion[:60] or 'none'}"
        )
    status = found.status
    if status is None:
        raise PluginError(f"{plugin.command} answered without a status")
    certificate, key = status.clientCertificateData, status.clientKeyData
    if bool(certificate) != bool(key):
        raise PluginError(f"{plugin.command} gave a certificate or a key, and not both")
    if not (status.token or certificate):
        raise PluginError(f"{plugin.command} gave neither a token nor a certificate")
    expires = status.expirationTimestamp
    if expires is not None and expires.tzinfo is None:
        raise PluginError(f"{plugin.command} gave an expirationTimestamp without a time zone")
    return Credential(status.token, certificate.encode(), key.encode(), expires)
