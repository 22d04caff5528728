collect_ignore = ["pretrained.py", "record.py"]  # scripts; to import the first would register its recipe in all tests
