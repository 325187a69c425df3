"""Who asks."""

import msgspec


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks. `node` actors speak over mTLS, `user` actors with a bearer token."""

    kind: str  # user | node | system
    name: str
    role: str = ""  # platform_admin, tenant_admin, project_admin, project_member, project_viewer, auditor
    org_id: str = ""
    project_id: str = ""
