"""What is worked out once for all who ask at the same revision."""

import threading
import time

from controlplane.queries.memo import KEPT_SECONDS, Memo


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_same_key_is_worked_out_once_a_second_and_another_key_at_once():
    clock, made = Clock(), []
    memo: Memo[int] = Memo(clock)

    def make() -> int:
        made.append(1)
        return len(made)

    assert [memo.get("a:1", make), memo.get("a:1", make)] == [1, 1]
    assert memo.get("a:2", make) == 2
    clock.now += KEPT_SECONDS
    assert memo.get("a:2", make) == 3
    memo.forget()
    assert memo.get("a:2", make) == 4


def test_many_who_ask_at_once_have_it_worked_out_by_one_of_them():
    memo: Memo[int] = Memo()
    made = []
    together = threading.Barrier(8)

    def make() -> int:
        made.append(1)
        # Longer than it is kept: whoever waited for it takes it all the same.
        time.sleep(KEPT_SECONDS + 0.1)
        return 7

    def ask(found: list[int]) -> None:
        together.wait()
        found.append(memo.get("k", make))

    found: list[int] = []
    threads = [threading.Thread(target=ask, args=(found,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found, len(made)) == ([7] * 8, 1)


def test_what_fails_is_not_kept_and_keeps_nobody_waiting():
    memo: Memo[int] = Memo()

    def fail() -> int:
        raise ValueError

    for _ in range(2):
        try:
            memo.get("k", fail)
        except ValueError:
            continue
    assert memo.get("k", lambda: 3) == 3
