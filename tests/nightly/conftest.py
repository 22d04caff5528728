collect_ignore = ["fuzz.py", "fuzzing", "kills.py"]  # scripts, which tests run
