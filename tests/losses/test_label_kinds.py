"""The probability of what a label says, against counting by hand: every order, every outcome of a small bag."""

import math
from itertools import permutations, product

import numpy as np
import pytest
import torch

from majority import Bags, InputError, build_model
from majority.data.background import Background
from majority.data.labels import KINDS, RUNNER_UP, SEVERAL, WINNER
from majority.data.segments import Segments
from majority.data.targets import Target
from majority.losses import BagOutput
from majority.losses.functional import runner_up_worths
from majority.nn.heads import Head
from majority.nn.methods import METHODS, create_head
from majority.training.loop import fit
from majority.training.settings import Settings

C = 4
LEARNING = [method for method in METHODS.values() if not method.kind.sees_instance_labels]
RANKED = [method.name for method in LEARNING if RUNNER_UP in method.kind.label_kinds]
COUNTING = ["count", "soft-count", "count-only", "log-mean"]


def random_output(head, sizes, seed=0):
    features = torch.randn(sum(sizes), 6, generator=torch.Generator().manual_seed(seed))
    return head(features, Segments(sizes)), Segments(sizes)


def head_of(name, background=None):
    torch.manual_seed(1)
    return create_head(name, 6, C, background).eval()


def target_of(labels, seconds=None, allowed=None, classes=C):
    given = torch.tensor(labels if allowed is None else allowed)
    return Target.of(given, classes, None if seconds is None else torch.tensor(seconds))


@pytest.mark.parametrize("name", COUNTING)
def test_counting_ranks_by_drawing_the_winner_again_without_it(name):
    """Over all orders of the classes in which each next one is drawn by its weight among those left."""
    head = head_of(name)
    output, segments = random_output(head, [3, 5])
    for first, second in permutations(range(C), 2):
        losses = head.losses(output, segments, target_of([first] * 2, [second] * 2))
        for bag, weights in enumerate(output.bag_log_probs.exp().tolist()):
            chance = sum(
                math.prod(weights[c] / sum(weights[d] for d in order[i:]) for i, c in enumerate(order))
                for order in permutations(range(C))
                if order[:2] == (first, second)
            )
            assert losses[bag].item() == pytest.approx(-math.log(chance), rel=1e-4)


def test_log_mean_ranks_as_if_instances_were_drawn():
    """With certain instances: over all orders of the instances of a bag, the first one names the winner, and the first
    one of another class the runner-up."""
    classes = [0, 0, 0, 1, 1, 2]
    certain = torch.full((len(classes), C), -60.0).scatter(1, torch.tensor(classes).unsqueeze(1), 0.0)
    head, segments = head_of("log-mean"), Segments([len(classes)])
    output = BagOutput(certain, head.loss.count(certain, segments)[0])
    orders = [*permutations(classes)]
    for first, second in [(0, 1), (1, 0), (2, 1), (0, 2)]:
        hits = sum(o[0] == first and next(c for c in o if c != first) == second for o in orders)
        loss = head.losses(output, segments, target_of([first], [second]))
        assert loss.item() == pytest.approx(-math.log(hits / len(orders)), rel=1e-5)


def test_worths_give_the_shares_of_runners_up():
    """Classes are drawn as second by worths that are then found from the shares alone, also if one usually wins."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        n = rng.integers(3, 8)
        firsts, worths = rng.dirichlet(np.ones(n)), rng.dirichlet(np.full(n, 5.0))
        chances = worths / (1 - worths)[:, None] * (1 - np.eye(n))  # of the column to be second, if the row is first
        seconds = firsts @ chances
        found = runner_up_worths(torch.from_numpy(firsts), torch.from_numpy(seconds))
        np.testing.assert_allclose(found, worths, atol=0.01)


def test_adjusted_mean_corrects_winners_and_runners_up_for_how_often_they_are_named():
    head = head_of("adjusted-mean")
    firsts, seconds = [8, 1, 1, 1], [0, 2, 7, 2]
    head.see_labels(torch.tensor(firsts), torch.tensor(seconds))
    head.eval().loss.winner_share.fill_(0.4)
    output, segments = random_output(head, [4])
    shares = output.instance_log_probs.detach().double().exp().mean(dim=0).numpy()
    f, g = ((np.array(counts) + 1) / (sum(counts) + C) for counts in (firsts, seconds))
    e = 0.4 * f + 0.6 * (1 - f) / (C - 1)
    h = runner_up_worths(torch.from_numpy(f), torch.from_numpy(g)).numpy()
    for first, second in permutations(range(C), 2):
        others = [c for c in range(C) if c != first]
        win = (shares * f / e)[first] / (shares * f / e).sum()
        follow = (shares * h)[second] / (shares * h)[others].sum()
        loss = head.losses(output, segments, target_of([first], [second]))
        assert loss.item() == pytest.approx(-math.log(win * follow), rel=1e-4)


def test_vote_is_near_the_chance_of_the_ranking_over_all_outcomes():
    """Every instance casts a random vote: all outcomes of nine of them, three classes. Ties count half."""
    torch.manual_seed(3)
    probs = torch.tensor([[0.7, 0.2, 0.1]] * 5 + [[0.2, 0.6, 0.2]] * 3 + [[0.1, 0.2, 0.7]])
    head, segments = create_head("vote", 6, 3), Segments([len(probs)])
    bags, scores = head.loss.count(probs.log(), segments)
    output = BagOutput(probs.log(), bags, scores)
    chances, votes = {}, probs.tolist()
    for outcome in product(range(3), repeat=len(probs)):
        chance = math.prod(votes[i][c] for i, c in enumerate(outcome))
        counts = [outcome.count(c) for c in range(3)]
        tied = [order for order in permutations(range(3)) if sorted(counts, reverse=True) == [counts[c] for c in order]]
        for order in tied:
            chances[order[:2]] = chances.get(order[:2], 0) + chance / len(tied)
    found = {
        pair: math.exp(-head.losses(output, segments, target_of([pair[0]], [pair[1]], classes=3)).item())
        for pair in chances
    }
    assert sum(chances.values()) == pytest.approx(1)
    for pair, chance in chances.items():
        assert found[pair] == pytest.approx(chance, abs=0.08)
    assert sorted(found, key=found.get)[-2:] == sorted(chances, key=chances.get)[-2:]


@pytest.mark.parametrize("name", RANKED)
def test_bags_without_a_runner_up_have_the_loss_of_the_winner(name):
    head = head_of(name)
    output, segments = random_output(head, [3, 5])
    both = head.losses(output, segments, target_of([2, 1], [-1, 3]))
    plain = head.losses(output, segments, target_of([2, 1]))
    assert both[0] == plain[0]
    assert both[1] > plain[1]


@pytest.mark.parametrize("name", [method.name for method in LEARNING if SEVERAL in method.kind.label_kinds])
def test_one_of_several_is_the_sum_of_their_chances(name):
    head = head_of(name)
    output, segments = random_output(head, [3, 5])
    allowed = np.zeros((2, C), bool)
    allowed[0, [1, 3]] = allowed[1, 2] = True
    losses = head.losses(output, segments, target_of([-1, 2], allowed=allowed.tolist()))
    single = [head.losses(output, segments, target_of([c, c])) for c in range(C)]
    assert losses[0].item() == pytest.approx(-math.log(sum(math.exp(-single[c][0].item()) for c in (1, 3))), rel=1e-5)
    assert losses[1] == single[2][1]


@pytest.mark.parametrize("name", ["count", "log-mean", "adjusted-mean", "vote"])
def test_the_background_is_no_runner_up(name):
    """A class that does not vote is as if it were not there."""
    head = head_of(name, Background(1))
    with_it, without = head.loss, create_head(name, 6, C - 1).loss
    output, segments = random_output(head, [4, 2])
    votes = torch.cat([output.instance_log_probs[:, :1], output.instance_log_probs[:, 2:]], dim=1)
    if name == "adjusted-mean":
        with_it.background = Background(1, phantom=0.0)
    elif name in ("count", "log-mean"):  # the proportions are those of the votes
        bags = torch.cat([output.bag_log_probs[:, :1], output.bag_log_probs[:, 2:]], dim=1)
        reduced = BagOutput(votes, bags)
    if name in ("adjusted-mean", "vote"):
        reduced = BagOutput(votes, output.bag_log_probs[:, [0, 2, 3]])
    first, second = torch.tensor([0, 3]), torch.tensor([2, 0])
    found = with_it.runner_up(output, segments, first, second)
    expected = without.runner_up(reduced, segments, torch.tensor([0, 2]), torch.tensor([1, 0]))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", RANKED)
def test_the_gradient_is_finite(name):
    head = head_of(name).train()
    features = (30 * torch.randn(6, 6)).requires_grad_()
    segments = Segments([2, 4])
    allowed = [[True, False, True, False], [False, True, False, False]]
    losses = head.losses(head(features, segments), segments, target_of([-1, 1], [-1, 0], allowed))
    losses.sum().backward()
    assert losses.isfinite().all()
    assert features.grad.isfinite().all()


def test_a_loss_of_your_own_knows_winners_only_unless_it_says_more():
    class Own(Head):
        def losses(self, output, segments, target):
            return output.bag_log_probs[:, 0]

    class Ranks(Own):
        label_kinds = KINDS

    class Inherits(Head):
        pass

    assert (Own.label_kinds, Ranks.label_kinds, Inherits.label_kinds) == ((WINNER,), KINDS, (WINNER, SEVERAL))


@pytest.mark.parametrize(
    ("method", "options", "facts"),
    [
        ("naive", {"labels": ["a", "b", "a|b"]}, ("bag 2 has a label of several", "method naive", "attention", "vote")),
        ("attention", {"labels": ["a", "b", "a"], "second_labels": ["", "a", ""]}, ("bag 1 has a runner-up", "count")),
    ],
)
def test_a_method_that_cannot_learn_from_a_label_says_so(method, options, facts):
    bags = Bags.from_lists([np.eye(3, 2)] * 3, **options)
    with pytest.raises(InputError) as error:
        fit(build_model(bags, method), bags, bags, Settings(epochs=1), title=None)
    assert all(fact in str(error.value) for fact in facts), error.value
