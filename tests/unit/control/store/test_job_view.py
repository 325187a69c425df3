"""What the kernel asks of jobs goes by the indexes that were made for it: none of it walks the history."""

import pytest

from hostler.control.store import db as store_db
from hostler.control.store.view import StoreView

ASKED = {
    "jobs_name": lambda view: view.job_named("acme", "train", "/ann/x"),
    "jobs_children": lambda view: view.children_of("op_1"),
    "job_tasks_of_job": lambda view: view.tasks_of_job("op_1"),
    "jobs_pending": lambda view: view.pending_jobs("acme", "train", ""),
    "job_tasks_leaving": lambda view: view.leaving_tasks(),
    "job_tasks_placed": lambda view: view.preemptible_below("acme", "train", "", 300),
    "stray_attempts_on_node": lambda view: view.strays_on("nod_1"),
    "stray_attempts_of_task": lambda view: view.strays_of("tsk_1"),
    "local_tasks_open_on_node": lambda view: view.tasks_to_reroute(1, 10),
    "job_tasks_timed": lambda view: view.due_job_tasks(1, 10),
    "jobs_budgeted": lambda view: view.jobs_beyond_budget(1, 10),
}


@pytest.mark.parametrize("index", ASKED)
def test_every_question_about_jobs_has_its_index(index, tmp_path) -> None:
    db = store_db.open_writer(tmp_path / "control.db")
    said: list[str] = []
    db.set_trace_callback(said.append)
    assert not ASKED[index](StoreView(db))
    db.set_trace_callback(None)
    plan = " | ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {said[-1]}"))
    db.close()
    assert index in plan, plan
