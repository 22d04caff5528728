"""The recipe pretrained: census with its plan for a GPU, so that a CPU too trains those stages."""

from dataclasses import replace

import majority

CENSUS = majority.recipes.find_recipe("census")


def plan(task: majority.recipes.TaskInfo) -> majority.recipes.Plan:
    return CENSUS.plan(task._replace(on_gpu=True))


majority.register(replace(CENSUS, name="pretrained", plan=plan))
