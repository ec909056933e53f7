"""Impersonation headers, as ``kubectl --as`` sends them."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from podtui.server.auth.access import impersonated
from podtui.server.auth.users import ADMIN, User, service_account
from podtui.server.status import StatusError


def test_without_headers_the_user_stays() -> None:
    assert impersonated(ADMIN, CIMultiDict()) is ADMIN


def test_the_admin_acts_as_another_user() -> None:
    headers = CIMultiDict(
        [
            ("impersonate-user", "ann"),
            ("Impersonate-Group", "dev"),
            ("Impersonate-Group", "ops"),
            ("Impersonate-Uid", "7"),
            ("Impersonate-Extra-Scopes", "a"),
        ]
    )
    groups = ("dev", "ops", "system:authenticated")
    assert impersonated(ADMIN, headers) == User("ann", groups, "7", {"scopes": ("a",)})


def test_a_service_account_has_its_groups() -> None:
    name = "system:serviceaccount:ns:web"
    found = impersonated(ADMIN, CIMultiDict({"Impersonate-User": name}))
    assert found == service_account("ns", "web", "", {})


def test_the_anonymous_user_is_not_authenticated() -> None:
    found = impersonated(ADMIN, CIMultiDict({"Impersonate-User": "system:anonymous"}))
    assert found.groups == ()


def test_others_may_not_impersonate() -> None:
    with pytest.raises(StatusError, match='User "ann" cannot impersonate resource "users"') as no:
        impersonated(User("ann"), CIMultiDict({"Impersonate-User": "bob"}))
    assert no.value.code == 403


def test_groups_without_a_user_are_a_bad_request() -> None:
    with pytest.raises(StatusError, match="without impersonating a user") as no:
        impersonated(ADMIN, CIMultiDict({"Impersonate-Group": "dev"}))
    assert no.value.code == 400
