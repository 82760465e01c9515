"""A model that kills its process now and then; it imports little, for many processes do."""

import os
import signal

from sklearn.tree import DecisionTreeClassifier


def crashing_model(journal: str, silent: list[int]) -> DecisionTreeClassifier:
    """A party's model that kills the process which makes it, at the wakings that `silent` names; it counts them."""
    with open(journal, "a+b") as file:
        file.write(b".")
        wakings = file.tell()
    if wakings in silent:
        os.kill(os.getpid(), signal.SIGKILL)
    return DecisionTreeClassifier(max_depth=3)
