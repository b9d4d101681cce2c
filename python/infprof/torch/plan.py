"""Which steps hooks stand on, which are their shadows, and which modules of a step have hooks.

A shadow is a step without hooks whose duration is compared with that of a step with hooks. The two make a pair: of the same class of
steps (kind and size of the batch), one right after the other, and a coin says which of the two has the hooks. All choices are those of
a seeded generator, so that the ranks of a distributed job sample the same steps.
"""
import random

BARE, HOOKED, SHADOW = "bare", "hooked", "shadow"
# Kinds that are not the plan's: the step that a model was found by, and steps without hooks for a reason that is told.
FIRST, NONE = "first", "none"
MOST_OPEN = 64  # classes of which a pair waits for its second step
MOST_EVERY = 100_000


class Pair:
    """Two steps, of which the second may end before the first in another thread."""

    __slots__ = ("hooked", "shadow", "is_spoilt")

    def __init__(self):
        self.hooked = self.shadow = None
        self.is_spoilt = False

    def take(self, step):
        """True when both are there now."""
        self.is_spoilt = self.is_spoilt or step.raised or step.has_others
        if step.kind == HOOKED:
            self.hooked = step
        else:
            self.shadow = step
        return self.hooked is not None and self.shadow is not None and not self.is_spoilt


class Plan:
    def __init__(self, options):
        self.least_every = self.every = max(1, round(1 / options.rate))
        self.budget = options.budget
        self._modules = options.modules
        self._shadow = options.shadow
        self._random = random.Random(options.seed)
        self._open = {}  # class: the kind that its next step has, and the pair
        self._turn = -1
        self._left = self._distance()

    def _distance(self):
        return self._random.randint(1, 2 * self.every - 1)

    def next(self, key):
        """The kind of the step that begins, and its pair; None: it has none."""
        waiting = self._open.pop(key, None)
        if waiting is not None:
            return waiting
        self._left -= 1
        if self._left > 0:
            return BARE, None
        self._left = self._distance()
        # Where most steps are bare, a shadow costs no sample.
        if self._random.random() >= (self._shadow if self.every < 2 else bool(self._shadow)):
            return HOOKED, None
        pair = Pair()
        first, second = (HOOKED, SHADOW) if self._random.random() < 0.5 else (SHADOW, HOOKED)
        if len(self._open) >= MOST_OPEN:
            self._open.pop(next(iter(self._open)))
        self._open[key] = second, pair
        return first, pair

    def pick(self, n):
        """Of n modules the one that has hooks on this step; None: all have."""
        if self._modules == "all" or not n:
            return None
        self._turn = (self._turn + 1) % n
        return self._turn if self._modules == "ordered" else self._random.randrange(n)

    def adapt(self, estimate):
        """Makes N such that the budget is kept. It grows by the estimate, at most twofold at once, and falls only when the upper end
        of the interval leaves room."""
        if self.budget is None or estimate is None:
            return
        room = self.budget - estimate.own
        if room <= 0:
            self._set_every(2 * self.every)
        elif estimate.full > room * self.every:
            self._set_every(min(2 * self.every, int(estimate.full / room) + 1))
        elif estimate.full_high < 0.8 * room * self.every:
            self._set_every(max(int(0.8 * self.every), int(max(estimate.full_high, 0) / room) + 1))

    def _set_every(self, every):
        self.every = min(max(every, self.least_every), MOST_EVERY)
        self._left = min(self._left, 2 * self.every - 1)
