"""When parts of the rows came, in sums over all of them: `finitesum.methods.rounds` sees there which were late."""

from collections import deque
from collections.abc import Sequence

#: The last rounds whose times are kept, and seconds from which a round's times say which parts are late.
N_ROUNDS, LEAST_SECONDS = 3, 0.1


class Rounds:
    """When the parts came in a run's last sums over all of them, where each took long enough to see which were late."""

    def __init__(self) -> None:
        self.n_seen = 0  # that took so long
        self.latest: deque[tuple[float, ...]] = deque(maxlen=N_ROUNDS)  # seconds, increasing

    def add(self, seconds: Sequence[float]) -> None:
        """Take the times of a sum; after one in which no part can have been late, those before it say nothing."""
        if seconds[-1] < LEAST_SECONDS:
            self.latest.clear()
        else:
            self.n_seen += 1
            self.latest.append(tuple(seconds))

    def clear(self) -> None:
        """Forget all sums, where a run begins."""
        self.n_seen = 0
        self.latest.clear()
