"""How users call the library, for mypy; nothing calls these functions."""


def readme() -> None:
    import majority
    from majority.io.demo import write_demo

    folder = write_demo("demo-2")
    run = majority.train(folder / "insects.csv")
    run.classifier.predict([[0.5] * 14])
    run.metrics["instance_accuracy"] > 0.9


def docstring_of_load() -> None:
    from majority.io import load

    load("digits").store.shape


def docstring_of_train() -> None:
    import majority

    train, val, test = majority.load_source("digits").make_parts(scenario="large", bags=40, bag_size=16)
    run = majority.train((train, val, test), method="count", recipe="quick", epochs=2, verbose=False)
    run.classifier.predict(test.instances()).shape
    0 < run.metrics["instance_accuracy"] < 1


def parts_are_passed_on(path: str) -> None:
    import majority

    majority.train(majority.load_source("digits").make_parts())
    majority.train(majority.load_source(path).make_parts())
    train, val, test = majority.load_source(path).make_parts()
    majority.train((train, val))
    majority.train([train, val, test])


def types_of_public_functions_are_public(path: str) -> None:
    import majority

    checked: majority.io.custom.load.SourceCheck = majority.io.check_source(path)
    train, val, test = majority.load_source("digits").make_parts()
    model = majority.build_model(train, "count")
    fitted: majority.training.callbacks.Fitted = majority.fit(model, train, val)
    outcome: majority.predict.predictions.Predictions = majority.evaluate(model, test)
    print(checked.problems, fitted.best_epoch, outcome.summary())


def a_recipe_of_ones_own() -> None:
    from typing import Any

    from majority import Model, Recipe, Settings, register
    from majority.recipes import Plan, Run, Stage, TaskInfo
    from majority.training.callbacks import Fitted

    def plan(task: TaskInfo) -> Plan:
        return Plan(training=Settings(epochs=5 if task.on_gpu else 2))

    def train(run: Run, model: Model) -> Fitted:
        return run.fit(model)

    def choose(run: Run) -> dict[str, Any]:
        return {"kept": "short", "lines": {"length": f"{run.plan.training.epochs} epochs"}}

    def stages(task: TaskInfo, plan: Plan) -> list[Stage]:
        short = Stage("short", plan.training, train=train)
        return [short, Stage("choice", inputs=("short",), choose=choose)]

    register(Recipe("short", stages, "a few epochs", plan))
