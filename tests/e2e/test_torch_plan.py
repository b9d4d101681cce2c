"""Which steps are sampled, and what is said of their cost: the parts of infprof.torch that need no PyTorch, by numbers."""
import importlib.util
import math
import pathlib
import random
import types

import pytest

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "python" / "infprof" / "torch"


def load(name):
    spec = importlib.util.spec_from_file_location(f"torch_{name}", PACKAGE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


options, overhead, plan = load("options"), load("overhead"), load("plan")


@pytest.mark.parametrize("text,expected", [
    ("on", {"is_on": True, "rate": 0.05, "layer_rate": 1.0, "budget": 0.01, "modules": "all"}),
    ("", {"is_on": True, "budget": 0.01}),
    ("off", {"is_on": False}),
    ("0", {"is_on": False}),
    ("0.5", {"rate": 0.5, "budget": None}),
    ("0.1:0.25", {"rate": 0.1, "layer_rate": 0.25}),
    ("1.0,adaptive", {"rate": 1.0, "budget": 0.01}),
    ("25%,budget=2%", {"rate": 0.25, "budget": 0.02}),
    ("on,budget=0.03", {"rate": 0.05, "budget": 0.03}),
    ("on,budget=off", {"budget": None}),
    ("on,shadow=4:1,backward=off", {"shadow": 0.2, "backward": False}),
    ("on,shadow=off", {"shadow": 0.0}),
    ("ordered", {"modules": "ordered", "rate": 1.0}),
    ("random:0.5,seed=7", {"modules": "random", "rate": 0.5, "seed": 7}),
    ("on,every=10,modules=ordered,steps=explicit,force", {"rate": 0.1, "modules": "ordered", "steps": "explicit", "force": True}),
])
def test_grammar(text, expected):
    found = options.Options(text)
    assert {key: getattr(found, key) for key in expected} == expected
    assert found.warning() is None


@pytest.mark.parametrize("text,ignored", [
    ("on,sync,tracepy,exprs=x@forward", ["sync", "tracepy", "exprs"]),
    ("5", ["rate=5 (it is a share from 0 to 1, or a percentage)"]),
    ("fast", ["rate=fast (could not convert string to float: 'fast')"]),
    ("on,budget=a lot", ["budget=a lot"]),
    ("on,modules=some,every=0", ["modules=some (it is one of all, ordered, random)", "every=0 (it is a whole number from 1)"]),
    ("on,shadow=0:0", ["shadow=0:0"]),
])
def test_what_has_no_meaning_is_one_warning(text, ignored):
    found = options.Options(text)
    assert found.is_on and found.rate == 0.05 and found.budget == 0.01
    assert found.warning().count("\n") == 0 and all(word in found.warning() for word in ignored), found.warning()


def test_keywords_are_the_words_of_the_text():
    found = options.Options(rate=0.5, modules="random", budget=None, shadow=False, backward=False, nonsense=1)
    assert (found.rate, found.modules, found.budget, found.shadow, found.backward) == (0.5, "random", None, 0.0, False)
    assert found.ignored == ["nonsense"]


@pytest.mark.parametrize("n,k", [(0, 0), (5, 0), (6, 1), (8, 1), (9, 2), (10, 2), (20, 6), (50, 18), (100, 40), (256, 112)])
def test_order_statistics_of_the_sign_test(n, k):
    """The tables of the sign test, and their meaning: the most k whose tails hold 5 % at most."""
    assert overhead.rank(n) == k
    tail = sum(math.comb(n, i) for i in range(k)) * 2 / 2**n
    assert tail <= 0.05 < tail + 2 * math.comb(n, k) / 2**n


def noisy(generator, seconds):
    """A step's time on a machine where others run: some noise, and now and then something long."""
    return seconds * math.exp(generator.gauss(0, 0.05)) + (seconds * generator.expovariate(0.5) if generator.random() < 0.05 else 0)


def simulate(generator, cost, steps=2000, every=10):
    """Steps of prefill and decode, of 160 ms and 6 ms, with hooks that cost `cost` seconds a step, sampled as the plan says."""
    chosen = plan.Plan(options.Options(f"every={every},budget=off", seed=generator.randrange(1 << 30)))
    measured = overhead.Overhead()
    hooked = total = 0
    for number in range(steps):
        key, seconds = ("prefill", 0.16) if number % 33 == 0 else ("decode", 0.006)
        kind, pair = chosen.next(key)
        taken = noisy(generator, seconds) + (cost if kind == plan.HOOKED else 0)
        total += seconds
        hooked += kind == plan.HOOKED
        measured.add_step(key, taken, 0.0, kind == plan.HOOKED)
        step = types.SimpleNamespace(kind=kind, raised=False, has_others=False, seconds=taken)
        if pair and pair.take(step):
            measured.add_pair(key, pair.hooked.seconds, pair.shadow.seconds)
    return measured.estimate(), cost * hooked / total, cost * steps / total


@pytest.mark.parametrize("cost", [0.0, 0.0003])
def test_intervals_hold_the_truth(cost):
    """95 % of them or more; of 200 runs 180 is what chance leaves below that once in 700 times."""
    generator = random.Random(11)
    inside = full_inside = 0
    widths = []
    for _ in range(200):
        found, truth, full = simulate(generator, cost)
        inside += found.low <= truth <= found.high
        full_inside += found.full_low <= full <= found.full_high
        widths.append(found.high - found.low)
    assert inside >= 180 and full_inside >= 180, (inside, full_inside)
    # An interval that holds everything would say nothing: it is narrower than 1 % of the time.
    assert sorted(widths)[100] < 0.01, sorted(widths)[100]


def test_own_time_counts_and_few_pairs_say_nothing():
    measured = overhead.Overhead()
    for number in range(5):
        measured.add_step("a", 1.0, 0.01, number % 2 == 0)
        measured.add_pair("a", 1.1, 1.0)
    assert measured.estimate() is None
    measured.add_step("a", 1.0, 0.01, False)
    measured.add_pair("a", 1.1, 1.0)
    found = measured.estimate()
    # Three of six steps of 1 s had hooks of 0.1 s; 0.06 s beside them.
    assert found.full == pytest.approx(0.6 / 5.7) and found.own == pytest.approx(0.06 / 5.7)
    assert found.overhead == pytest.approx(0.36 / 5.7) and found.pairs == 6


def test_only_the_newest_pairs_of_a_class_count():
    measured = overhead.Overhead()
    for number in range(overhead.WINDOW * 3):
        measured.add_step("a", 1.0, 0.0, True)
        measured.add_pair("a", 2.0 if number < overhead.WINDOW * 2 else 1.5, 1.0)
    assert measured.estimate().full == pytest.approx(0.5 / 0.5)


def test_classes_with_few_pairs_are_one():
    measured = overhead.Overhead()
    for number in range(12):
        measured.add_step(number, 1.0, 0.0, True)
        measured.add_pair(number, 1.2, 1.0)
    assert measured.estimate().full == pytest.approx(0.2 / 0.8)


@pytest.mark.parametrize("every", [1, 2, 20])
def test_share_of_steps_with_hooks(every):
    chosen = plan.Plan(options.Options(f"every={every},budget=off"))
    kinds = [chosen.next("a")[0] for _ in range(20_000)]
    share = kinds.count(plan.HOOKED) / len(kinds)
    # With hooks on all steps each fifth sample is a pair, whose other step has none: 6 in 7.
    expected = 5 / 6 if every == 1 else 1 / (every + 1)
    assert share == pytest.approx(expected, rel=0.08), share
    assert kinds.count(plan.SHADOW) == pytest.approx(len(kinds) * (1 / 6 if every == 1 else expected), rel=0.12)


def test_pairs_are_of_one_class_and_a_coin_chooses():
    generator = random.Random(5)
    chosen = plan.Plan(options.Options("every=3,budget=off"))
    first, open_pairs = [], {}
    for _ in range(30_000):
        key = generator.randrange(3)
        kind, pair = chosen.next(key)
        if pair is None:
            continue
        if pair in open_pairs:
            other_key, other_kind = open_pairs.pop(pair)
            assert other_key == key and {kind, other_kind} == {plan.HOOKED, plan.SHADOW}
        else:
            assert all(waiting != key for waiting, _ in open_pairs.values())  # the class's own next step is the other one
            open_pairs[pair] = key, kind
            first.append(kind)
    assert first.count(plan.HOOKED) / len(first) == pytest.approx(0.5, abs=0.03)


def test_all_ranks_choose_alike():
    a, b, c = (plan.Plan(options.Options("on", seed=seed)) for seed in (1, 1, 2))
    chosen = [[one.next("x")[0] for _ in range(2000)] for one in (a, b, c)]
    assert chosen[0] == chosen[1] != chosen[2]


def test_open_pairs_are_bounded():
    chosen = plan.Plan(options.Options("every=1,budget=off"))
    for key in range(5000):
        chosen.next(key)
    assert len(chosen._open) <= plan.MOST_OPEN


def estimate(full, full_high=None, own=0.0):
    return types.SimpleNamespace(full=full, full_high=full if full_high is None else full_high, own=own)


def test_budget():
    chosen = plan.Plan(options.Options("on"))  # 1 %, at most one step in 20
    chosen.adapt(None)
    assert chosen.every == 20
    chosen.adapt(estimate(0.4))  # a step with hooks takes 40 % more: one in 40 is 1 %
    assert chosen.every == 40 or chosen.every == 41
    chosen.adapt(estimate(4.0))
    assert chosen.every <= 82  # at most twofold at once
    for _ in range(10):
        chosen.adapt(estimate(4.0))
    assert chosen.every == pytest.approx(401, abs=1)
    chosen.adapt(estimate(0.1, 3.9))
    assert chosen.every == pytest.approx(401, abs=1)  # the interval leaves no room
    for _ in range(40):
        chosen.adapt(estimate(0.1, 0.15))
    assert chosen.every == 20  # not more often than asked for
    for _ in range(60):
        chosen.adapt(estimate(0.1, own=0.02))
    assert chosen.every == plan.MOST_EVERY  # what is done beside hooks is over it alone


def test_without_a_budget_the_rate_stays():
    chosen = plan.Plan(options.Options("0.5"))
    chosen.adapt(estimate(10.0))
    assert chosen.every == 2


def test_one_module_a_step():
    ordered, at_random = plan.Plan(options.Options("ordered")), plan.Plan(options.Options("random", seed=3))
    assert [ordered.pick(4) for _ in range(6)] == [0, 1, 2, 3, 0, 1]
    assert {at_random.pick(4) for _ in range(200)} == {0, 1, 2, 3}
    assert plan.Plan(options.Options("on")).pick(4) is None
