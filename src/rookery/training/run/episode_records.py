"""Episodes of a run on their way to `episodes.jsonl`. A full disk must not end the run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from rookery.monitor.episode_file import ALL_UP_TO, EPISODES, NOTE, EpisodeFile
from rookery.training.run.collector import Collector
from rookery.training.run.final_infos import FinalInfos


class EpisodeRecords:
    """Writes the episodes that end, with the infos of their last steps."""

    def __init__(self, file: EpisodeFile | None, collector: Collector, note: Callable[[str], None]) -> None:
        """Without a `file` nothing is collected. `note` tells the user something."""
        self._file, self._note = file, note
        self._infos = FinalInfos()
        if file is not None:
            collector.on_final_infos = self._infos.add

    def add(self, step: int, before: int, listed: np.ndarray, count: int) -> None:
        """The first `count` of these records, all that `finished_episodes()` has listed at `step` of the run, after
        `before` other episodes. The others are beyond the run's end or of a phase that is over."""
        infos, finished = self._infos.take(listed), listed[:count]
        if self._file is None or not len(finished):
            return
        if before <= ALL_UP_TO < before + len(finished):
            self._note(NOTE)
        self._try(lambda file: file.add(step, before + 1, finished, infos))

    def flush(self) -> None:
        """Write what waits: what a checkpoint has counted must be in the file before it."""
        self._try(EpisodeFile.flush)

    def _try(self, action: Callable[[EpisodeFile], None]) -> None:
        if self._file is None:
            return
        try:
            action(self._file)
        except OSError as error:
            with suppress(OSError):
                self._file.close()
            self._file = None
            self._note(f"{EPISODES} cannot be written, the run continues without it: {error}")
