"""What a Celery worker tells of itself: the tasks that it ran."""

from .metric import counter, gauge, histogram

TASKS = counter(
    "pdcp_tasks",
    "Tasks that this worker was handed: done, failed (with an exception), expired (overtaken)",
    "task",
    "outcome",
)
TASK_SECONDS = histogram(
    "pdcp_task_seconds",
    "How long they took",
    "task",
    bounds=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60),
)
RUNNING = gauge("pdcp_tasks_running", "Tasks that this worker runs now")
OUTCOMES = ("done", "failed", "expired")
