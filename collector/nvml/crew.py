"""One thread per GPU: a GPU that does not answer keeps only its own thread waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from collector.nvml.gpu import Gpu

Answer = TypeVar("Answer")


class Crew:
    """Asks all GPUs the same at the same time; one thread uses it.

    Args:
        gpus: The GPUs.
    """

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        self._workers = tuple(_Worker(place, gpu) for place, gpu in enumerate(gpus))

    def ask(self, question: Callable[[Gpu], Answer], patience_s: float) -> list[Answer | None]:
        """Return the answer of each GPU, in their order.

        None stands for one that does not answer in time. It is not asked again until it has come
        back, and then takes its next reading for the first.

        Args:
            question: What to ask; it does not raise.
            patience_s: For all of them together.
        """
        round_ = _Round(question, time.monotonic() + patience_s)
        asked = sum(worker.take(round_) for worker in self._workers)
        answers = round_.gather(asked)
        return [answers.get(place) for place in range(len(self._workers))]


class _Round(Generic[Answer]):
    """One question to all GPUs, with the answers that come in time."""

    def __init__(self, question: Callable[[Gpu], Answer], deadline_s: float) -> None:
        self.question = question
        self._deadline_s = deadline_s
        self._answers: SimpleQueue[tuple[int, Answer]] = SimpleQueue()
        self._lock = threading.Lock()
        self._is_over = False

    def deliver(self, place: int, answer: Answer) -> bool:
        """Hand in an answer; returns whether it came in time."""
        with self._lock:
            if not self._is_over:
                self._answers.put((place, answer))
            return not self._is_over

    def gather(self, asked: int) -> dict[int, Answer]:
        """Return the answers by place; nothing is taken in afterwards."""
        answers: dict[int, Answer] = {}
        while len(answers) < asked:
            try:
                left_s = max(0.0, self._deadline_s - time.monotonic())
                place, answer = self._answers.get(timeout=left_s)
            except Empty:
                break
            answers[place] = answer
        with self._lock:
            self._is_over = True
        while not self._answers.empty():
            place, answer = self._answers.get()
            answers[place] = answer
        return answers


class _Worker:
    """The thread of one GPU."""

    def __init__(self, place: int, gpu: Gpu) -> None:
        self._place = place
        self._gpu = gpu
        self._inbox: SimpleQueue[_Round[object]] = SimpleQueue()
        self._is_free = True
        threading.Thread(target=self._run, name=f"gpu-{place}", daemon=True).start()

    def take(self, round_: _Round[Answer]) -> bool:
        """Take a question if it is free to; returns whether it is."""
        if not self._is_free:
            return False
        self._is_free = False
        self._inbox.put(round_)  # type: ignore[arg-type]  # only the round looks at its answers
        return True

    def _run(self) -> None:
        while True:
            round_ = self._inbox.get()
            answer = round_.question(self._gpu)
            self._is_free = True  # before the answer is out: the next question may follow at once
            if not round_.deliver(self._place, answer):
                self._gpu.forget()
