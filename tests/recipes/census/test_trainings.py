"""The parts that stages of census share: a head alone, and the probabilities of instances."""

import torch

from majority import build_model, load_source
from majority.data.loader import BagLoader
from majority.recipes.census.trainings import head_alone, instance_probabilities
from majority.recipes.features import bags_of_features


def digits():
    return load_source("digits").make_parts(scenario="large", bags=24, bag_size=8)


def test_a_head_alone_reads_what_the_whole_model_reads():
    parts = digits()
    model = build_model(parts.train, "count", "tiny", instance_temperature=0.5).eval()
    features = bags_of_features(model, parts.train, "cpu")
    alone = head_alone(model, features).eval()
    (batch,), (of_features,) = (
        BagLoader(bags, torch.device("cpu")).in_order(9_999) for bags in (parts.train, features)
    )
    with torch.no_grad():
        whole = model(batch.instances, batch.segments).instance_log_probs
        read = alone(of_features.instances, of_features.segments).instance_log_probs
    torch.testing.assert_close(read, whole, rtol=1e-4, atol=1e-4)


def test_instance_probabilities_are_the_models_own_in_the_order_of_the_bags():
    parts = digits()
    model = build_model(parts.train, "log-mean", "tiny").eval()
    (batch,) = BagLoader(parts.train.without_instance_labels(), torch.device("cpu")).in_order(9_999)
    with torch.no_grad():
        expected = model(batch.instances, batch.segments).instance_log_probs.exp()
    torch.testing.assert_close(instance_probabilities(model, parts.train, "cpu"), expected)
