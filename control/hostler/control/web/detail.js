// One node: what its agent said of itself, and its newest run.
import { $, api, cell, el, headings, moment, waits } from "/common.js";

const SOON_MS = 60000;
let node = null, from = null, key = "", goodUntil = Infinity;

export function opened() {
  return node?.node_id ?? "";
}

export function open(chosen, button) {
  [node, from, key] = [chosen, button, ""];
  $("name").textContent = chosen.name;
  $("told").replaceChildren(el("p", { text: "…" }));
  $("detail").hidden = false;
  $("detail").focus();
  refreshDetail().catch((error) => $("told").replaceChildren(el("p", { text: error.message })));
}

export function close() {
  $("detail").hidden = true;
  node = null;
  from?.isConnected && from.focus();
}

// Draws anew only what has changed: a command that somebody is copying stays as long as its address is good.
export async function refreshDetail() {
  const asked = node;
  if (!asked) return;
  const told = await api(`/api/v1/admin/nodes/${encodeURIComponent(asked.node_id)}/agent-lifecycle`);
  if (node?.node_id !== asked.node_id) return;
  const run = told.latest_run;
  const seen = JSON.stringify([asked.labels, { ...told, latest_run: run && { ...run, next_action: null } }]);
  if (seen === key && Date.now() < goodUntil) return;
  [key, goodUntil] = [seen, (run?.next_action?.package?.url_expires_ms ?? Infinity) - SOON_MS];
  $("told").replaceChildren(...agentPart(told, asked), ...reportPart(told.report), ...runPart(run));
}

function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return el("dl", {}, ...shown.flatMap(([name, value]) => [el("dt", { text: name }), el("dd", { text: String(value) })]));
}

function list(names, rows, empty) {
  if (!rows.length) return el("p", { text: empty, className: "quiet" });
  return el("table", {}, headings(...names), ...rows.map((row) => el("tr", {}, ...row.map((text) => cell(text)))));
}

function part(title, ...content) {
  return [el("h3", { text: title }), ...content];
}

function agentPart({ agent }, { node_id, labels }) {
  const pinned = agent.pinned_version ? ` (${agent.pinned_version})` : "";
  const delivery = agent.last_delivery_result && `${agent.last_delivery_result}, ${moment(agent.last_delivery_attempt_at_ms)}, ${agent.last_delivery_correlation_id}`;
  return part("Agent", facts([
    ["Node", node_id],
    ["Badge", agent.badge],
    ["Drift by its own report", agent.drift_state],
    ["Reported version", agent.reported_agent_version],
    ["Built from", agent.agent_commit],
    ["Desired version", agent.desired_agent_version || "none"],
    ["Channel", agent.agent_channel + pinned],
    ["Suite", agent.suite],
    ["Last probe", moment(agent.last_probe_at_ms)],
    ["Next probe", moment(agent.next_probe_at_ms)],
    ["Delivery", agent.desired_delivery_mode],
    ["Last delivery", delivery],
    ["Labels", Object.entries(labels).map(([name, value]) => `${name}=${value}`).join(", ")],
  ]));
}

function reportPart(report) {
  if (!report) return part("Drift", el("p", { text: "The agent has not reported yet.", className: "quiet" }));
  const evidence = report.evidence.map((each) => [each.kind, each.name, each.expected || "not there", each.found || "not there"]);
  const slots = report.slots.map((slot) => [slot.version, slot.commit, slot.state]);
  return [
    ...part("Drift", list(["Kind", "Name", "Expected", "Found"], evidence, "Nothing is other than it should be.")),
    ...part("Versions on the node", list(["Version", "Built from", "State"], slots, "None but the package's.")),
    ...(report.trial ? trialPart(report.trial) : []),
    ...(report.returned ? returnPart(report.returned) : []),
  ];
}

function trialPart(trial) {
  const checks = [["started", trial.started_ms], ["renewed its certificate", trial.renewed_ms], ["holds its session", trial.connected_ms], ["finished a task", trial.task_done_ms]];
  const rows = checks.map(([name, ms]) => [name, ms ? moment(ms) : "not yet"]);
  const said = el("p", { text: `${trial.version} after ${trial.from_version}, until ${moment(trial.deadline_ms)}` });
  return part("Trial", said, list(["Check", "Held"], rows, ""));
}

function returnPart(back) {
  const text = `${moment(back.at_ms)}: gave up ${back.version}, is on ${back.to_version} again. ${back.error_code}: ${back.reason}`;
  return part("Last return", el("p", { text }));
}

function runPart(run) {
  if (!run) return part("Newest run", el("p", { text: "There was none.", className: "quiet" }));
  const state = [run.state, waits(run.waiting_for)].filter(Boolean).join(", ");
  const checks = Object.entries(run.checks ?? {}).map(([name, ms]) => [name, ms ? moment(ms) : "not yet"]);
  return [
    ...part("Newest run", facts([
      ["Run", run.run_id],
      ["State", state],
      ["Scenario", `${run.scenario}, ${run.mode}`],
      ["Version", `${run.from_version || "none"} → ${run.target_version}`],
      ["Safety policy", run.safety_policy],
      ["Asked by", run.requested_by],
      ["Rollout", run.rollout_id],
      ["Begun", moment(run.created_at_ms)],
      ["Ended", run.finished_at_ms ? moment(run.finished_at_ms) : ""],
      ["Error", run.error_code && `${run.error_code}: ${run.error_message}`],
    ])),
    ...part("Its checks", list(["Check", "Held"], checks, "None has held yet.")),
    ...nextPart(run.next_action ?? {}),
  ];
}

function nextPart(next) {
  if (!next.action && !next.kind) return [];
  const { commands, check_command: check, package: file, instead, kind, action, reason, ...others } = next;
  const more = Object.entries(others).map(([name, value]) => [name, typeof value === "object" ? JSON.stringify(value) : value]);
  const shown = facts([["By", kind], ["Do", action], ["Because", reason], ["Instead", instead?.join(", ")], ["Package", file && `${file.file} sha256 ${file.sha256}`], ["At your desk", check], ...more]);
  const typed = commands?.length ? [el("pre", { text: commands.join("\n"), tabindex: "0" })] : [];
  return part("Next action", shown, ...typed);
}
