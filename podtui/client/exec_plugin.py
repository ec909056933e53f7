"""Exec plugins: commands of a kubeconfig that provide credentials for a cluster.

The protocol is Kubernetes' ``client.authentication.k8s.io``, versions v1 and v1beta1: the request
is in ``KUBERNETES_EXEC_INFO``, the response is one ``ExecCredential`` on standard output. No shell
is involved.
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

from podtui.api.lenient import lenient_decode
from podtui.errors import PodtuiError, first_error
from podtui.kubeconfig.types import Cluster, ExecPlugin, Target

PLUGIN_SECONDS: Final = 60.0
TERMINAL_SECONDS: Final = 600.0
"""Timeout for a plugin that asks the user."""
KILLED_SECONDS: Final = 5.0
MAX_ANSWER: Final = 1024 * 1024
_LONGEST_COMPLAINT: Final = 400


class PluginError(PodtuiError):
    """Raised if a plugin provides no credentials. The message contains nothing of its response."""


@dataclass(frozen=True, slots=True)
class Credential:
    """``certificate`` and ``key`` are PEM, both or none; ``expires`` is None if unknown."""

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
    """Run the user's plugin. ``interactive`` means that it may use this terminal to ask the user.

    The plugin is killed after a timeout, or when this call is cancelled. Raises `PluginError`.
    """
    plugin = target.user.exec
    assert plugin is not None
    mode = plugin.interactive_mode or "IfAvailable"
    if mode == "Always" and not interactive:
        raise PluginError(
            f"{plugin.command} needs input from the terminal: leave podtui and start it again"
        )
    uses_terminal = interactive and mode != "Never"
    environment = await asyncio.to_thread(_environment, plugin, target.cluster, uses_terminal)
    status, answer, complaint = await _run(plugin, environment, uses_terminal)
    if status:
        raise PluginError(_words(f"{plugin.command} ended with status {status}", complaint, plugin))
    return read_answer(answer, plugin)


def exec_info(plugin: ExecPlugin, cluster: Cluster, interactive: bool) -> dict[str, Any]:
    """Return the request to the plugin as a JSON object."""
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.provide_cluster_info:
        info = {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure,
            "certificate-authority-data": base64.b64encode(_authority(cluster)).decode(),
            "proxy-url": cluster.proxy_url,
            "config": cluster.exec_config,
        }
        spec["cluster"] = {name: value for name, value in info.items() if value}
    return {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}


def _authority(cluster: Cluster) -> bytes:
    if cluster.ca_data or cluster.ca_file is None:
        return cluster.ca_data
    try:
        return cluster.ca_file.read_bytes()
    except OSError as error:
        raise PluginError(f"{cluster.ca_file}: {error.strerror}") from error


def _environment(plugin: ExecPlugin, cluster: Cluster, uses_terminal: bool) -> dict[str, str]:
    info = json.dumps(exec_info(plugin, cluster, uses_terminal))
    return {**os.environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": info}


async def _run(
    plugin: ExecPlugin, environment: dict[str, str], uses_terminal: bool
) -> tuple[int, bytes, bytes]:
    """Return (exit status, standard output, standard error unless it went to the terminal)."""
    process = await _start(plugin, environment, uses_terminal)
    try:
        async with asyncio.timeout(TERMINAL_SECONDS if uses_terminal else PLUGIN_SECONDS):
            async with asyncio.TaskGroup() as group:
                out = group.create_task(_bounded(process.stdout))
                err = group.create_task(_bounded(process.stderr))
            return await process.wait(), out.result(), err.result()
    except TimeoutError:
        if not uses_terminal:
            # It may have exited and left a child process that holds its output open.
            _kill_all(process)
        raise PluginError(f"{plugin.command} took too long and was killed") from None
    finally:
        await _end(process, group=not uses_terminal)


async def _start(
    plugin: ExecPlugin, environment: dict[str, str], uses_terminal: bool
) -> asyncio.subprocess.Process:
    """Start a plugin. A cancellation waits until it runs and ends it: asyncio can wait forever for
    the end of a process whose start is cancelled, and does not end its children."""
    pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        async with asyncio.TaskGroup() as group:
            starting = group.create_task(
                asyncio.create_subprocess_exec(
                    plugin.command,
                    *plugin.args,
                    env=environment,
                    stdin=None if uses_terminal else none,
                    stdout=pipe,
                    stderr=None if uses_terminal else pipe,
                    # A session to kill child processes too; at a terminal, stay in the foreground.
                    start_new_session=not uses_terminal,
                )
            )
            try:
                await asyncio.shield(starting)
            except asyncio.CancelledError:
                await _end(await starting, group=not uses_terminal)
                raise
    except* (OSError, ValueError) as errors:
        error = first_error(errors)
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise PluginError(_words(f"cannot run {plugin.command}: {why}", b"", plugin)) from None
    return starting.result()


async def _bounded(stream: asyncio.StreamReader | None) -> bytes:
    """Read to the end, but keep only slightly more than `MAX_ANSWER` bytes."""
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
    """Kill the process group. Its id stays valid as long as any member exists."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _words(what: str, complaint: bytes, plugin: ExecPlugin) -> str:
    complaint_text = complaint.decode(errors="replace").strip()[-_LONGEST_COMPLAINT:]
    hint = plugin.install_hint.strip()[:_LONGEST_COMPLAINT] if what.startswith("cannot") else ""
    return "; ".join(
        part for part in (what, " ".join(complaint_text.split()), " ".join(hint.split())) if part
    )


def read_answer(answer: bytes, plugin: ExecPlugin) -> Credential:
    """Parse a plugin's response. Raises `PluginError` if it is not valid."""
    if len(answer) > MAX_ANSWER:
        raise PluginError(f"{plugin.command} returned more than {MAX_ANSWER >> 20} MiB")
    try:
        credential = lenient_decode(answer, msgspec.json.Decoder(_Answer))
    except msgspec.MsgspecError:
        # Drop the cause, because its message may quote the response.
        raise PluginError(f"{plugin.command} returned no ExecCredential") from None
    if credential.kind != "ExecCredential" or credential.apiVersion != plugin.api_version:
        raise PluginError(
            f"{plugin.command} must return an ExecCredential of {plugin.api_version}, and"
            f" answered with {credential.kind[:60] or 'no kind'} of"
            f" {credential.apiVersion[:60] or 'none'}"
        )
    status = credential.status
    if status is None:
        raise PluginError(f"{plugin.command} returned no status")
    certificate, key = status.clientCertificateData, status.clientKeyData
    if bool(certificate) != bool(key):
        raise PluginError(f"{plugin.command} returned a certificate or a key, but not both")
    if not (status.token or certificate):
        raise PluginError(f"{plugin.command} returned neither a token nor a certificate")
    expires = status.expirationTimestamp
    if expires is not None and expires.tzinfo is None:
        raise PluginError(f"{plugin.command} returned an expirationTimestamp without a time zone")
    return Credential(status.token, certificate.encode(), key.encode(), expires)
