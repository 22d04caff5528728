"""How long the teachers of census train."""

import numpy as np
import pytest

from majority import Bags
from majority.recipes import RECIPES, TaskInfo, model_builder, train_by_plan


@pytest.mark.parametrize(("labelled", "epochs"), [(8, 3), (4, 6), (2, 10)])
def test_teachers_take_as_many_steps_as_the_student_or_fewer(tmp_path, labelled, epochs):
    store, truth = np.random.default_rng(0).integers(0, 255, (32, 8, 8, 1)).astype(np.uint8), np.arange(32) // 16
    bags = Bags(store, np.arange(32), np.arange(0, 33, 4), truth[::4], ["a", "b"])
    train = bags._with(bag_labels=bags.bag_labels.masked(np.arange(8) % (8 // labelled) == 0))
    settings = {"training.epochs": 3, "census.teacher_epochs": 10, "census.teachers": 1}
    plan = RECIPES["census"].plan(TaskInfo.of(train, "", False)).with_settings(settings)
    build = model_builder(plan, "adjusted-mean", train, pixels=plan.pixels)
    trained = train_by_plan(plan, "adjusted-mean", train, bags, build, tmp_path, device="cpu")
    assert {name: stage.epochs for name, stage in trained.stages.items()} == {"teacher-1": epochs, "student": 3}
