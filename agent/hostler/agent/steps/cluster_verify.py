"""`cluster.verify`: the node's cluster calls it ready, or the step fails with the cluster's condition (SK-14)."""

from hostler.agent.clusters.table import adapter_of
from hostler.agent.steps.cluster_site import asking_site, wait_for
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.base.clock import Deadline
from hostler.base.errors import error
from hostler.catalog.params.cluster import Verify


class ClusterVerifyKind:
    name = "cluster.verify"

    async def plan(self, view: StepView) -> Plan:
        params: Verify = view.params
        cluster = adapter_of(params.cluster).name(params.cluster)
        return Plan((Change(action="check", target=cluster, detail=f"node {params.node} is ready"),))

    async def apply(self, context: StepContext) -> Outcome:
        params: Verify = context.params
        adapter, site = adapter_of(params.cluster), asking_site(context)
        seconds = min(params.within_seconds, context.deadline.remaining())
        seen = await wait_for(
            adapter,
            site,
            context,
            until=Deadline.after(seconds, context.host.clock),
            interval_s=params.interval_seconds,
            enough=lambda seen: seen.ready,
        )
        cluster = adapter.name(params.cluster)
        if not seen.ready:
            raise error("node_not_ready", f"node {params.node} of the {cluster} is not ready: {seen.condition}")
        outputs = {"cluster": cluster, "node": params.node, "condition": seen.condition}
        return Outcome(outputs=outputs, changed=False)

    async def probe(self, view: StepView) -> Probe:
        return Probe(truth=Truth.NOT_DONE, note="readiness is looked at anew")


KIND = ClusterVerifyKind()
