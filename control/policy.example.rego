# What a policy engine may look at, and how it refuses: the value of data.hostler.deny is a list of reasons; an empty
# one allows. It can only refuse more than the policy overlays do. Try it before it counts:
#
#   hostler-control policy question > question.json
#   hostler-control policy test --file policy.example.rego question.json
package hostler

# Model files come from the house's own store alone, however the operation got its address.
deny contains reason if {
    some place, url in input.sources
    not startswith(url, "https://models.example.org/")
    reason := sprintf("%s fetches from a store that is not ours", [place])
}

# A tenant in its trial gets four nodes at most, whatever is free.
deny contains reason if {
    input.asks_for == "allocation"
    input.org_id in {"trial-1", "trial-2"}
    input.targets.node_count > 4
    reason := sprintf("tenant %s may have four nodes while it is on trial", [input.org_id])
}

# Whoever may only submit runs nothing on a whole group of nodes without having looked at the plan.
deny contains "members run on groups of nodes in plan mode only" if {
    input.asks_for == "operation"
    input.role == "project_member"
    "group" in input.target_kinds
    input.mode != "plan"
}
