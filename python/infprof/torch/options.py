"""What was asked for: by keywords of enable_torch_profiling(), or by a text, whose grammar is that of PROBING_TORCH_PROFILING:

    on | off | RATE[:LAYER_RATE] | ordered[:RATE] | random[:RATE]   and, after commas:
    budget=1%  adaptive  every=N  modules=all|ordered|random  shadow=N:M|off  backward=on|off  steps=...  seed=N  force

RATE is the share of steps that are sampled (5 % is 0.05), LAYER_RATE that of the modules of such a step.
"""

MODULES = ("all", "ordered", "random")
STEPS = ("auto", "forward", "optimizer", "explicit")
ON, OFF = ("on", "1", "true", "yes", ""), ("off", "0", "false", "no")
# Words of Probing that have no meaning here: nothing is ever waited for, and no code of a user's text is run.
WITHOUT_MEANING = ("sync", "tracepy", "exprs", "watch", "mixed")
DEFAULT_RATE, DEFAULT_BUDGET = 0.05, 0.01


class Options:
    """`rate` is the most: with a budget fewer steps are sampled when they cost more than it."""

    def __init__(self, text="on", **given):
        self.is_on = True
        self.rate = DEFAULT_RATE
        self.layer_rate = 1.0
        self.modules = "all"
        self.budget = DEFAULT_BUDGET  # None: sample at `rate`, whatever it costs
        self.shadow = 0.2  # of the samples, at rates at which hooks stand on more than half of the steps
        self.backward = True
        self.steps = "auto"
        self.seed = 0
        self.force = False
        self.ignored = []  # words that were not understood, with the reason
        self._has_budget = False
        self._take_text(str(text))
        for key, value in given.items():
            self._take(key, value)

    def warning(self):
        """One sentence on all that was ignored; None: nothing."""
        return "infprof: torch profiling ignores " + ", ".join(self.ignored) if self.ignored else None

    def _take_text(self, text):
        for number, word in enumerate(text.replace(";", ",").split(",")):
            key, equals, value = word.strip().partition("=")
            if equals:
                self._take(key.strip(), value.strip())
            elif key in ("adaptive", "force"):
                self._take(key, "on")
            elif key in WITHOUT_MEANING:
                self._ignore(key)
            elif key.lower() in ON:
                pass
            elif key.lower() in OFF:
                self.is_on = False
            elif number == 0:
                self._take_head(key)
            else:
                self._ignore(key)

    def _take_head(self, word):
        head, colon, tail = word.partition(":")
        if head in MODULES:
            self.modules = head
            self._take("rate", tail if colon else 1.0)  # as upstream: a module on each step
            return
        self._take("rate", head)
        if colon:
            self._take("layer_rate", tail)

    def _ignore(self, word, why=""):
        self.ignored.append(f"{word} ({why})" if why else word)

    def _take(self, key, value):
        take = getattr(self, "_set_" + key, None)
        if take is None:
            self._ignore(key)
            return
        try:
            take(value)
        except (ValueError, TypeError) as error:
            self._ignore(f"{key}={value}", str(error))

    def _set_rate(self, value):
        rate = _share(value)
        self.is_on = self.is_on and rate > 0
        self.rate = rate or self.rate
        if not self._has_budget:
            self.budget = None  # who names a rate wants that one

    def _set_every(self, value):
        n = int(value)
        if n < 1:
            raise ValueError("it is a whole number from 1")
        self._set_rate(1 / n)

    def _set_layer_rate(self, value):
        self.layer_rate = _share(value)

    def _set_budget(self, value):
        self.budget = None if value is None or str(value).lower() in OFF else _share(value)
        self._has_budget = True

    def _set_adaptive(self, value):
        if _switch(value) and self.budget is None:
            self._set_budget(DEFAULT_BUDGET)

    def _set_modules(self, value):
        self.modules = _word(value, MODULES)

    def _set_steps(self, value):
        self.steps = _word(value, STEPS)

    def _set_shadow(self, value):
        if value is False or str(value).lower() in OFF:
            self.shadow = 0.0
            return
        with_hooks, colon, without = str(value).partition(":")
        if not colon:
            self.shadow = _share(value)
            return
        a, b = float(with_hooks), float(without)
        if a < 0 or b < 0 or a + b == 0:
            raise ValueError("it is N:M, or off")
        self.shadow = b / (a + b)

    def _set_backward(self, value):
        self.backward = _switch(value)

    def _set_force(self, value):
        self.force = _switch(value)

    def _set_seed(self, value):
        self.seed = int(value)


def _share(value):
    text = str(value).strip()
    share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    if not 0 <= share <= 1:
        raise ValueError("it is a share from 0 to 1, or a percentage")
    return share


def _switch(value):
    if isinstance(value, bool):
        return value
    if str(value).lower() in ON:
        return True
    if str(value).lower() in OFF:
        return False
    raise ValueError("it is on or off")


def _word(value, words):
    if value not in words:
        raise ValueError("it is one of " + ", ".join(words))
    return value
