"""Roles, bindings and what they allow, with kubectl. The transcript is from a real v1.36.2 cluster.

Nothing runs, so that the simulated engine is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from kubectl_agent import KubectlAgent, kubectl_agent
from kubectl_transcript import differences

FILES: Final = {
    "rbac.yaml": """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: part, labels: {rbac.example.com/whole: "true"}}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: files, namespace: default}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: files, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: files}
subjects:
- {kind: ServiceAccount, name: robot}
- {kind: User, name: ann, apiGroup: rbac.authorization.k8s.io}
""",
    "rbac-more.yaml": """\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: files, namespace: default}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: files, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: part}
subjects:
- {kind: User, name: bob, apiGroup: rbac.authorization.k8s.io}
""",
}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubectlAgent]:
    with kubectl_agent(tmp_path_factory.mktemp("rbac"), node="n1", engine="memory") as found:
        for name, text in FILES.items():
            (found.work / name).write_text(text)
        yield found


def test_a_session_is_that_of_a_real_cluster(agent: KubectlAgent) -> None:
    changes = differences(agent, "rbac")
    assert not changes, changes


def test_an_aggregated_role_follows_the_roles_that_it_selects(agent: KubectlAgent) -> None:
    agent.out("create", "clusterrole", "sum", "--aggregation-rule=rbac.example.com/whole=true")
    agent.out("create", "clusterrolebinding", "sum", "--clusterrole=sum", "--user=sue")
    question = ("auth", "can-i", "list", "configmaps", "--as", "sue")
    assert agent.run(*question).stdout == "no\n"
    assert "part created" in agent.out("apply", "-f", "rbac.yaml")
    agent.until(lambda: agent.run(*question).stdout == "yes\n")
    agent.out("delete", "-f", "rbac.yaml")
    agent.until(lambda: agent.run(*question).stdout == "no\n")


def test_a_token_has_the_rights_of_its_account(agent: KubectlAgent) -> None:
    agent.out("create", "serviceaccount", "viewer")
    token = agent.out("create", "token", "viewer").strip()
    server = agent.out("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")
    authority = agent.work / "ca.crt"
    bundle = "jsonpath={.data['ca\\.crt']}"
    authority.write_text(agent.out("get", "configmap", "kube-root-ca.crt", "-o", bundle))
    as_viewer = (
        "--server", server, "--token", token, "--certificate-authority", str(authority),
    )  # fmt: skip

    def code(*command: str) -> int:
        return agent.run(*command, *as_viewer, KUBECONFIG="/dev/null").returncode

    assert code("get", "configmaps") == 1
    agent.out("create", "rolebinding", "v", "--clusterrole=view", "--serviceaccount=default:viewer")
    assert code("get", "configmaps") == 0
    assert code("get", "configmaps", "-n", "kube-system") == 1
    assert code("get", "secrets") == 1
    agent.out("delete", "rolebinding", "v")
    assert code("get", "configmaps") == 1
