"""One process for all profiled runs: a crash there costs a run, never the server.

torch.profiler allows one session per process, so runs take turns.
"""

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeout
from ctypes import c_int
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pebble import ProcessExpired, ProcessPool

from profiling.config import STAGES, RunConfig
from profiling.outcome import Environment, Failed, Outcome

if TYPE_CHECKING:
    from pebble import ProcessFuture

TIME_LIMIT_S = 300.0
_POLL_S = 0.2

# Set in the worker process by _start: the stage of the current run, as an index into STAGES.
_stage: Any = None


class _BareProcess(SpawnProcess):
    """Spawned without the main script, which spawn imports again: that is the whole page."""

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Any:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            return SpawnProcess._Popen(process_obj)
        finally:
            sys.modules["__main__"] = main


class _BareContext(SpawnContext):
    Process = _BareProcess


class Worker:
    """Runs configurations in a spawned process that stays warm; threads may share it."""

    def __init__(self, time_limit_s: float = TIME_LIMIT_S) -> None:
        context = _BareContext()
        self._time_limit_s = time_limit_s
        self._turn = threading.Lock()
        self._stage = context.RawValue(c_int, 0)
        self._pool = ProcessPool(
            max_workers=1, context=context, initializer=_start, initargs=(self._stage,)
        )
        self._environment: Environment | None = None
        self._last_used_s = time.monotonic()

    def environment(self) -> Environment:
        """Probed in the process that runs things, once."""
        if self._environment is None:
            self._environment = self._pool.schedule(_probe).result()
        return self._environment

    @property
    def known_environment(self) -> Environment | None:
        """What `environment` found, without waiting for it."""
        return self._environment

    def run(self, config: RunConfig, on_stage: Callable[[str], None] | None = None) -> Outcome:
        """Execute `config`, calling `on_stage` with each new stage; waits for its turn."""
        with self._turn:
            self._stage.value = 0
            future = self._pool.schedule(_execute, args=(config,), timeout=self._time_limit_s)
            try:
                return self._outcome(config, future, on_stage)
            finally:
                self._last_used_s = time.monotonic()

    def wait_until_idle(self, idle_s: float) -> None:
        """Return once nobody has run anything for `idle_s` seconds."""
        while self._turn.locked() or time.monotonic() - self._last_used_s < idle_s:
            time.sleep(min(1.0, idle_s))

    def close(self) -> None:
        """Stop the process; a run in progress is lost."""
        self._pool.stop()
        self._pool.join()

    def _outcome(
        self,
        config: RunConfig,
        future: "ProcessFuture[Outcome]",
        on_stage: Callable[[str], None] | None,
    ) -> Outcome:
        shown = -1
        while True:
            done = _finished(future)
            if on_stage is not None and self._stage.value != shown:
                shown = self._stage.value
                on_stage(STAGES[shown])
            if done:
                break
        try:
            return future.result()
        except FutureTimeout:
            message = (
                f"{config.label} was stopped after {self._time_limit_s:.0f} s; choose a smaller "
                "seq_len or batch."
            )
        except ProcessExpired as ended:
            message = (
                f"{config.label} ended the worker process (exit code {ended.exitcode}), perhaps "
                "for want of memory; choose a smaller batch or seq_len. The next run starts anew."
            )
        return Failed(config, self.environment(), message)


def _finished(future: "ProcessFuture[Outcome]") -> bool:
    try:
        future.exception(timeout=_POLL_S)
    except FutureTimeout:
        return future.done()
    return True


def _start(stage: Any) -> None:
    global _stage
    _stage = stage


def _execute(config: RunConfig) -> Outcome:
    from profiling.execute import execute

    def on_stage(stage: str) -> None:
        _stage.value = STAGES.index(stage)

    return execute(config, on_stage)


def _probe() -> Environment:
    from profiling.environment import probe

    return probe()
