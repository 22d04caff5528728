"""census of vectors, where one method is named: the choice of the start."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from majority import Settings
from majority.recipes.census.parts import HeadSettings
from majority.recipes.stages import Run

OWN = HeadSettings(head=Settings(epochs=8, batch_bags=16, learning_rate=0.02), teachers=2)


@pytest.mark.parametrize(("loss", "kind"), [(9.0, "teacher"), (-9.0, "distilled-teacher")])
def test_other_teachers_start_like_the_first_with_the_lower_validation_loss(
    train_census, vectors, monkeypatch, loss, kind
):
    fit, started, ended = Run.fit, {}, {}

    def noted(run, model, *given, **more):
        name = run.stage.name
        started[name] = [value.clone() for value in model.backbone.state_dict().values()]
        fitted = fit(run, model, *given, **more)
        ended[name] = [value.clone() for value in model.backbone.state_dict().values()]
        return replace(fitted, best_loss=loss) if name == "distilled-teacher-1" else fitted

    monkeypatch.setattr(Run, "fit", noted)
    trained = train_census(vectors(), OWN, "adjusted-mean", backbone="mlp")
    assert list(trained.trainings) == [
        "head", "distilled", "teacher-1", "distilled-teacher-1", "teacher-2", "student"
    ]  # fmt: skip
    assert trained.about["start"] == kind
    expected = {"distilled-teacher-1"} | ({"teacher-2", "student"} if kind == "distilled-teacher" else set())
    alike = {name for name, start in started.items() if start and all(map(torch.equal, start, ended["distilled"]))}
    assert alike == expected


def test_without_a_bag_of_every_label_teachers_start_from_random_weights(train_census, vectors):
    parts = vectors()
    two_labels = parts._replace(train=parts.train.subset(np.flatnonzero(parts.train.labels < 2)))
    trained = train_census(two_labels, OWN, "adjusted-mean", backbone="mlp")
    assert list(trained.trainings) == ["teacher-1", "teacher-2", "student"]
