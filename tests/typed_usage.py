"""How the README and docstrings use the library, for mypy; test_documents.py compares the lines, nothing calls them."""


def readme() -> None:
    import majority

    train, val, test = majority.load_source("digits").make_parts(scenario="large")
    train
    run = majority.train((train, val, test), method="log-mean", recipe="quick", verbose=False)
    run.classifier.predict(test.instances()).shape
    run.figures["instance_accuracy"] > 0.9


def docstring_of_load() -> None:
    from majority.sources import load

    load("digits").store.shape


def docstring_of_train() -> None:
    import majority

    train, val, test = majority.load_source("digits").make_parts(scenario="large", bags=40, bag_size=16)
    settings = {"training.epochs": 2}
    run = majority.train((train, val, test), method="count", recipe="quick", settings=settings, verbose=False)
    run.classifier.predict(test.instances()).shape
    0 < run.figures["instance_accuracy"] < 1


def parts_are_passed_on(path: str) -> None:
    import majority

    majority.train(majority.load_source("digits").make_parts())
    majority.train(majority.load_source(path).make_parts())
    train, val, test = majority.load_source(path).make_parts()
    majority.train((train, val))
    majority.train([train, val, test])
