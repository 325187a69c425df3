"""What the store says of budgets is what the kernel's model of it says: with children, and with what runs now."""

from pathlib import Path

from hostler.control.kernel.job_rows import JobRow
from hostler.control.kernel.rows import TaskRow
from hostler.control.store import db as store_db
from hostler.control.store.tables import STATEMENTS
from hostler.control.store.view import StoreView
from support.jobs import JobBench, spec


def test_budgets_are_used_up_by_what_ran_and_what_runs_in_a_job_and_below_it(tmp_path: Path) -> None:
    bench = JobBench()
    bench.worker()
    root = bench.submit(spec("root", max_task_seconds=20))
    middle = bench.submit(spec("middle", max_task_seconds=12), parent=root)
    below = bench.submit(spec("below"), parent=middle)
    for job_id in (root, middle, below):
        bench.start(job_id)
    db = store_db.open_writer(tmp_path / "control.db")
    db.execute("PRAGMA foreign_keys = OFF")
    for type_ in (JobRow, TaskRow):
        for row in bench.view.rows[type_].values():
            db.execute(STATEMENTS[type_].insert, STATEMENTS[type_].values(row))
    for after_ms, beyond in ((5_999, []), (6_000, [middle]), (6_667, [middle, root]), (9_000, [middle, root])):
        now = bench.now + after_ms
        said = [job.job_id for job in StoreView(db).jobs_beyond_budget(now, 10)]
        assert sorted(said) == sorted(beyond), after_ms
        assert sorted(job.job_id for job in bench.view.jobs_beyond_budget(now, 10)) == sorted(beyond)
    db.close()
