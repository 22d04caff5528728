"""The probability of what a label says, against counting by hand: every order, every outcome of a small bag."""

import math
from itertools import permutations

import numpy as np
import pytest
import torch

from majority import Bags, InputError, build_model
from majority.data.background import Background
from majority.data.labels import KINDS, RUNNER_UP, SEVERAL, WINNER
from majority.data.segments import Segments
from majority.data.targets import Target
from majority.losses import VotingLoss
from majority.losses.functional import runner_up_worths
from majority.nn.heads import Head
from majority.nn.methods import METHODS, create_head
from majority.training.loop import fit
from majority.training.settings import Settings

C = 4
LEARNING = {name: method.kind for name, method in METHODS.items() if not method.kind.sees_instance_labels}


def random_output(head, sizes):
    features = torch.randn(sum(sizes), 6, generator=torch.Generator().manual_seed(0))
    return head(features, Segments(sizes)), Segments(sizes)


def head_of(name, background=None):
    torch.manual_seed(1)
    return create_head(name, 6, C, background).eval()


def target_of(labels, seconds=None, allowed=None, classes=C):
    given = torch.tensor(labels if allowed is None else allowed)
    return Target.of(given, classes, None if seconds is None else torch.tensor(seconds))


def test_adjusted_mean_corrects_runners_up_for_how_often_they_are_named():
    head = head_of("adjusted-mean")
    firsts, seconds = [8, 1, 1, 1], [0, 2, 7, 2]
    head.see_labels(torch.tensor(firsts), torch.tensor(seconds))
    output, segments = random_output(head, [4])
    shares = output.instance_log_probs.detach().double().exp().mean(dim=0).numpy()
    f, g = ((np.array(counts) + 1) / (sum(counts) + C) for counts in (firsts, seconds))
    h = runner_up_worths(torch.from_numpy(f), torch.from_numpy(g)).numpy()
    for first, second in permutations(range(C), 2):
        others = [c for c in range(C) if c != first]
        follow = (shares * h)[second] / (shares * h)[others].sum()
        both, winner = (head.losses(output, segments, target_of([first], s)) for s in ([second], None))
        assert (both - winner).item() == pytest.approx(-math.log(follow), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", ["count", "adjusted-mean", "vote", "output-mean", "attention"])
def test_one_of_several_is_the_sum_of_their_chances(name):
    head = head_of(name)
    output, segments = random_output(head, [3, 5])
    allowed = np.zeros((2, C), bool)
    allowed[0, [1, 3]] = allowed[1, 2] = True
    losses = head.losses(output, segments, target_of([-1, 2], allowed=allowed.tolist()))
    single = [head.losses(output, segments, target_of([c, c])) for c in range(C)]
    assert losses[0].item() == pytest.approx(-math.log(sum(math.exp(-single[c][0].item()) for c in (1, 3))), rel=1e-5)
    assert losses[1] == single[2][1]


@pytest.mark.parametrize("name", [name for name, kind in LEARNING.items() if RUNNER_UP in kind.label_kinds])
@pytest.mark.parametrize("background", [None, Background(1, phantom=0.0)])
def test_over_all_runners_up_the_loss_is_that_of_the_winner(name, background):
    """Their chances, given the winner, sum to 1, about so if rivals are treated as independent; a background is none of
    them, and a bag whose runner-up is not known has no chance of one."""
    if background is not None and name == "count-only":  # its proportions underflow
        return
    head = head_of(name, background)
    output, segments = random_output(head, [3, 5])
    plain = head.losses(output, segments, target_of([2, 0], [-1, -1]))
    assert torch.equal(plain, head.losses(output, segments, target_of([2, 0])))
    total = 0
    for second in {0, 1, 3} - ({1} if background else set()):
        total += (plain - head.losses(output, segments, target_of([2, 0], [second, -1])))[0].exp().item()
    assert total == pytest.approx(1, abs=0.5 if name == "vote" else 1e-4)


@pytest.mark.parametrize("name", ["count", "adjusted-mean", "vote"])
def test_the_share_of_a_background_is_a_prior_on_all_instances(name):
    """Also on those that are not counted: 0 if they have that share, and more the farther from it."""
    segments, target = Segments([4, 4], keep=torch.arange(8) % 2 == 0), target_of([2, 0])
    prior = {}
    for share in (0.2, 0.5, None):
        head = head_of(name, Background(1, share))
        output = head(torch.zeros(8, 6), segments)
        prior[share] = head.losses(output, segments, target)
    q = output.instance_log_probs[:, 1].exp().mean().item()
    for share in (0.2, 0.5):
        expected = share * math.log(share / q) + (1 - share) * math.log((1 - share) / (1 - q))
        assert (prior[share] - prior[None]).tolist() == pytest.approx([expected] * 2, abs=1e-5)


def test_what_a_loss_does_not_say_it_cannot_do():
    class Own(Head):
        def losses(self, output, segments, target):
            return output.bag_log_probs[:, 0]

    class Ranks(Own):
        label_kinds = KINDS

    class Inherits(Head):
        pass

    class Counts(VotingLoss):
        def count(self, votes, segments):
            return votes, None

    class Follows(Counts):
        uses_weights = True

    assert (Own.label_kinds, Ranks.label_kinds, Inherits.label_kinds) == ((WINNER,), KINDS, (WINNER, SEVERAL))
    assert (Counts.uses_weights, Follows.uses_weights, VotingLoss.uses_weights) == (False, True, True)


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
