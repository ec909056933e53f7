"""Reads one kubeconfig file, with positions for error messages.

As in kubectl, unknown fields are ignored, strings must be strings, and names must be unique.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import yaml

from podtui.kubeconfig.types import (
    AuthInfo,
    Cluster,
    Context,
    ExecPlugin,
    Impersonation,
    Kubeconfig,
    KubeconfigError,
)

EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
"""The cluster extension that is passed to exec plugins."""
MAX_BYTES: Final = 16 * 1024 * 1024
_MAX_DEPTH: Final = 64
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG: Final = "tag:yaml.org,2002:"
_TEXTS: Final = (_TAG + "str", _TAG + "timestamp")
_TRUE: Final = ("true", "yes", "on", "y")
T = TypeVar("T", Cluster, AuthInfo, Context)


def read(path: Path) -> Kubeconfig:
    """Read one file; relative paths become absolute. Raises `KubeconfigError`, and
    `FileNotFoundError` if the file does not exist."""
    node = _composed(path)
    if node is None:
        return Kubeconfig(files=(path,))
    top = _Map(path, node, "")
    kind, version = top.text("kind"), top.text("apiVersion")
    if kind not in ("", "Config"):
        top.fail("kind", f"is {kind!r}; a kubeconfig is a Config")
    if version not in ("", "v1"):
        top.fail("apiVersion", f"is {version!r}; kubeconfigs have v1")
    return Kubeconfig(
        files=(path,),
        current=top.text("current-context"),
        clusters=_named(top, "clusters", "cluster", _cluster),
        users=_named(top, "users", "user", _user),
        contexts=_named(top, "contexts", "context", _context),
    )


def _composed(path: Path) -> yaml.Node | None:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise KubeconfigError(f"{path}: longer than {MAX_BYTES >> 20} MiB: not a kubeconfig")
        return yaml.compose(content.decode("utf-8-sig"), Loader=_LOADER)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise KubeconfigError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise KubeconfigError(f"{path}: not UTF-8 (at byte {error.start})") from None
    except yaml.MarkedYAMLError as error:
        # YAML's full error text has a context that quotes lines of the file, which may be secret.
        mark = error.problem_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise KubeconfigError(f"{path}{where}: {error.problem}") from None
    except (yaml.YAMLError, RecursionError):
        raise KubeconfigError(f"{path}: not YAML") from None


class _Map:
    """A map in the file; ``where`` is its path (``users[0].user``)."""

    def __init__(self, path: Path, node: yaml.Node, where: str) -> None:
        self.path = path
        self._node = node
        self._where = where
        if not isinstance(node, yaml.MappingNode):
            self.fail("", "must be a map")
        self._values: dict[str, yaml.Node] = {str(k.value): v for k, v in node.value}

    @property
    def position(self) -> str:
        return _place(self.path, self._node)

    def has(self, name: str) -> bool:
        node = self._values.get(name)
        return node is not None and not _is_null(node)

    def fail(self, name: str, message: str) -> NoReturn:
        node = self._values.get(name, self._node) if name else self._node
        field = ".".join(part for part in (self._where, name) if part)
        raise KubeconfigError(
            f"{_place(self.path, node)}: {f'{field}: ' if field else ''}{message}"
        )

    def text(self, name: str) -> str:
        if not self.has(name):
            return ""
        node = self._values[name]
        if not isinstance(node, yaml.ScalarNode) or node.tag not in _TEXTS:
            self.fail(name, "must be a string; put it in quotes")
        return str(node.value)

    def boolean(self, name: str) -> bool:
        if not self.has(name):
            return False
        node = self._values[name]
        if node.tag != _TAG + "bool":
            self.fail(name, "must be true or false")
        return str(node.value).lower() in _TRUE

    def data(self, name: str) -> bytes:
        """Decode base64 that may contain line breaks."""
        text = "".join(self.text(name).split())
        try:
            return base64.b64decode(text, validate=True)
        except ValueError:
            # Omit the cause, because its text may quote a secret.
            self.fail(name, "is not base64")

    def file(self, name: str) -> Path | None:
        """Return a path; a relative one is resolved against the directory of the kubeconfig."""
        text = self.text(name)
        return self.path.absolute().parent / text if text else None

    def texts(self, name: str) -> tuple[str, ...]:
        if not self.has(name):
            return ()
        node = self._values[name]
        items: list[yaml.Node] = node.value if isinstance(node, yaml.SequenceNode) else []
        if not isinstance(node, yaml.SequenceNode) or any(i.tag not in _TEXTS for i in items):
            self.fail(name, "must be a list of strings")
        return tuple(str(item.value) for item in items)

    def child(self, name: str) -> _Map | None:
        if not self.has(name):
            return None
        where = ".".join(part for part in (self._where, name) if part)
        return _Map(self.path, self._values[name], where)

    def children(self, name: str) -> list[_Map]:
        if not self.has(name):
            return []
        node = self._values[name]
        if not isinstance(node, yaml.SequenceNode):
            self.fail(name, "must be a list")
        where = ".".join(part for part in (self._where, name) if part)
        return [_Map(self.path, item, f"{where}[{n}]") for n, item in enumerate(node.value)]

    def lists(self, name: str) -> dict[str, tuple[str, ...]]:
        """Return a map of lists of strings."""
        child = self.child(name)
        return {} if child is None else {key: child.texts(key) for key in child.names}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._values)

    def plain(self, name: str) -> Any:
        """Return any value, converted as to JSON."""
        return _plain(self, name, self._values[name], 0) if self.has(name) else None


def _place(path: Path, node: yaml.Node) -> str:
    mark: Any = node.start_mark
    return f"{path}:{mark.line + 1}:{mark.column + 1}"


def _is_null(node: yaml.Node) -> bool:
    return node.tag == _TAG + "null"


def _plain(owner: _Map, name: str, node: yaml.Node, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        owner.fail(name, "is nested too deeply")
    if isinstance(node, yaml.MappingNode):
        return {str(k.value): _plain(owner, name, v, depth + 1) for k, v in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(owner, name, item, depth + 1) for item in node.value]
    if _is_null(node):
        return None
    if node.tag == _TAG + "bool":
        return str(node.value).lower() in _TRUE
    if node.tag == _TAG + "int" and str(node.value).lstrip("-").isdigit():
        return int(node.value)
    return str(node.value)


def _named(
    top: _Map, plural: str, singular: str, make: Callable[[str, _Map | None, str], T]
) -> dict[str, T]:
    """Return the entries of one of the three lists by name. A duplicate name is an error, as in
    kubectl."""
    by_name: dict[str, T] = {}
    for entry in top.children(plural):
        name = entry.text("name")
        if name in by_name:
            entry.fail("name", f"{name!r} is defined twice")
        by_name[name] = make(name, entry.child(singular), entry.position)
    return by_name


def _cluster(name: str, given: _Map | None, position: str) -> Cluster:
    if given is None:
        return Cluster(name=name, position=position)
    config = None
    for extension in given.children("extensions"):
        if extension.text("name") == EXEC_EXTENSION:
            config = extension.plain("extension")
    return Cluster(
        name=name,
        server=given.text("server"),
        ca_file=given.file("certificate-authority"),
        ca_data=given.data("certificate-authority-data"),
        insecure=given.boolean("insecure-skip-tls-verify"),
        tls_server_name=given.text("tls-server-name"),
        proxy_url=given.text("proxy-url"),
        exec_config=config,
        position=position,
    )


def _user(name: str, given: _Map | None, position: str) -> AuthInfo:
    if given is None:
        return AuthInfo(name=name, position=position)
    provider = given.child("auth-provider")
    plugin = given.child("exec")
    return AuthInfo(
        name=name,
        cert_file=given.file("client-certificate"),
        cert_data=given.data("client-certificate-data"),
        key_file=given.file("client-key"),
        key_data=given.data("client-key-data"),
        token=given.text("token"),
        token_file=given.file("tokenFile"),
        username=given.text("username"),
        password=given.text("password"),
        exec=_exec(plugin) if plugin is not None else None,
        auth_provider=(provider.text("name") or "auth-provider") if provider is not None else "",
        impersonation=Impersonation(
            user=given.text("as"),
            uid=given.text("as-uid"),
            groups=given.texts("as-groups"),
            extra=given.lists("as-user-extra"),
        ),
        position=position,
    )


def _exec(given: _Map) -> ExecPlugin:
    command = given.text("command")
    if "/" in command:
        command = str(given.path.absolute().parent / command)
    env: list[tuple[str, str]] = []
    for variable in given.children("env"):
        if not variable.text("name"):
            variable.fail("name", "must be the name of a variable")
        env.append((variable.text("name"), variable.text("value")))
    return ExecPlugin(
        command=command,
        args=given.texts("args"),
        env=tuple(env),
        api_version=given.text("apiVersion"),
        install_hint=given.text("installHint"),
        provide_cluster_info=given.boolean("provideClusterInfo"),
        interactive_mode=given.text("interactiveMode"),
    )


def _context(name: str, given: _Map | None, position: str) -> Context:
    if given is None:
        return Context(name=name, position=position)
    return Context(
        name=name,
        cluster=given.text("cluster"),
        user=given.text("user"),
        namespace=given.text("namespace"),
        position=position,
    )
