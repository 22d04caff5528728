from ..image_summary import ImageFileSummary  # noqa: F401  (until all imports have changed)
