"""Progress in memory: the newest of each task, told a few times a second."""

from hostler.control.rpc.progress import Key, ProgressBoard
from hostler.wire.report import StepProgress
from support.control import FrozenClock


def step(task_id: str, done: int) -> StepProgress:
    return StepProgress(task_id=task_id, attempt_uid="a", step_id="s", step_index=0, done_units=done)


def test_a_follower_sees_the_newest_of_its_tasks_once() -> None:
    board = ProgressBoard(FrozenClock())
    board.put("n1", [step("t1", 1), step("t1", 2), step("t2", 9)])
    version, seen = board.since(0, [Key("n1", "t1")])
    assert [each.done_units for each in seen] == [2]
    assert board.since(version, [Key("n1", "t1")])[1] == []


def test_I7_what_a_node_says_of_a_task_that_is_not_its_own_reaches_nobody() -> None:
    board = ProgressBoard(FrozenClock())
    board.put("hostile", [step("t1", 99)])
    assert board.since(0, [Key("n1", "t1")])[1] == []


def test_followers_are_woken_at_most_a_few_times_a_second() -> None:
    clock = FrozenClock()
    board, woken = ProgressBoard(clock), []
    with board.following([Key("n1", "t1")], lambda: woken.append(1)):
        for done in range(100):
            board.put("n1", [step("t1", done)])
        assert len(woken) == 1
        clock.move(300)
        board.put("n1", [step("t1", 100)])
        assert len(woken) == 2
    clock.move(300)
    board.put("n1", [step("t1", 101)])
    assert len(woken) == 2
    assert board._followers == {}


def test_N1_the_board_is_bounded() -> None:
    board = ProgressBoard(FrozenClock())
    for number in range(25_000):
        board.put("n1", [step(f"t{number}", 1)])
    assert len(board._latest) == 20_000
