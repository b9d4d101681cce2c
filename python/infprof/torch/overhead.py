"""What the hooks cost, by the run itself.

Of each pair of steps (plan.py) the difference is taken: duration with hooks less duration without. A coin chose which of the two has
the hooks, so drift and noise fall on both alike, and without an effect each difference is as often positive as negative. The median of
the differences of a class of steps is therefore an estimate that one long step (a collection of garbage, a lost CPU) cannot move, and
its 95 % interval is that of the sign test: two order statistics, whatever the distribution is. Classes differ in size (prefill,
decode), so each has its own median; what they say together is the sum over the steps of each class, and the half widths of their
intervals are added as independent errors are (root of the sum of squares). Classes with fewer than 6 pairs, too few for an interval,
are taken together as one.

What the profiler does between steps (decisions, rows) is no part of a step's duration; it is timed itself, and added as `own`.
"""
import bisect
import collections
import functools
import math

LEAST = 6  # pairs: with 5 the interval of the sign test has no ends
WINDOW = 256  # newest pairs of a class
MOST_CLASSES = 128


@functools.lru_cache(maxsize=None)
def rank(n):
    """The most k with 2 P(B < k) <= 5 % where B counts heads of n coins: the median lies between the k-th smallest and the k-th
    largest of n values in 95 % of all cases or more. 0: never."""
    k, below, here = 0, 0, 1
    while 40 * (below + here) <= 2**n:
        below += here
        here = here * (n - k) // (k + 1)
        k += 1
    return k


def median_of(ordered):
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def interval_of(ordered):
    """(median, low, high) of sorted values; None: too few."""
    k = rank(len(ordered))
    return (median_of(ordered), ordered[k - 1], ordered[-k]) if k else None


class Estimate:
    """Shares of the time of steps. full: what hooks on all steps would add, with its interval; own: what is done beside them;
    overhead: what this run has paid so far for both, with its interval."""

    __slots__ = ("pairs", "full", "full_low", "full_high", "own", "overhead", "low", "high")


class _Class:
    __slots__ = ("ordered", "newest", "steps", "hooked")

    def __init__(self):
        self.ordered, self.newest = [], collections.deque()
        self.steps = self.hooked = 0

    def add(self, difference):
        if len(self.newest) == WINDOW:
            del self.ordered[bisect.bisect_left(self.ordered, self.newest.popleft())]
        self.newest.append(difference)
        bisect.insort(self.ordered, difference)


class Overhead:
    def __init__(self):
        self._classes = {}
        self._seconds = self._own = 0.0
        self.pairs = 0

    def _class_of(self, key):
        found = self._classes.get(key)
        if found is None:
            key = key if len(self._classes) < MOST_CLASSES else None
            found = self._classes.setdefault(key, _Class())
        return found

    def add_step(self, key, seconds, own, is_hooked, n=1):
        """n: steps that this one stands for."""
        one = self._class_of(key)
        one.steps += n
        one.hooked += is_hooked
        self._seconds += seconds * n
        self._own += own

    def add_own(self, seconds):
        self._own += seconds

    def add_pair(self, key, hooked, bare):
        self._class_of(key).add(hooked - bare)
        self.pairs += 1

    def own_share(self):
        return self._own / self._seconds if self._seconds else 0.0

    def estimate(self):
        """None: there are not enough pairs yet."""
        if self.pairs < LEAST:
            return None
        groups, rest = [], _Class()
        for one in self._classes.values():
            found = interval_of(one.ordered)
            if found:
                groups.append((one.steps, one.hooked, found))
            else:
                rest.steps, rest.hooked = rest.steps + one.steps, rest.hooked + one.hooked
                rest.ordered += one.ordered
        if rest.steps:
            # Too few even together: as the others, whose steps call the same modules.
            values = rest.ordered if rank(len(rest.ordered)) else [v for one in self._classes.values() for v in one.ordered]
            found = interval_of(sorted(values))
            if found is None:
                return None
            groups.append((rest.steps, rest.hooked, found))
        return self._sum(groups)

    def _sum(self, groups):
        result = Estimate()
        result.pairs = self.pairs
        paid, paid_low, paid_high = _total((hooked, found) for _, hooked, found in groups)
        full, full_low, full_high = _total((steps, found) for steps, _, found in groups)
        bare = max(self._seconds - paid, self._seconds / 2)  # what the steps would take without us
        result.full, result.full_low, result.full_high = full / bare, full_low / bare, full_high / bare
        result.own = self._own / bare
        result.overhead, result.low, result.high = ((seconds + self._own) / bare for seconds in (paid, paid_low, paid_high))
        return result


def _total(weighted):
    middle = below = above = 0.0
    for weight, (median, low, high) in weighted:
        middle += weight * median
        below += (weight * (median - low))**2
        above += (weight * (high - median))**2
    return middle, middle - math.sqrt(below), middle + math.sqrt(above)
