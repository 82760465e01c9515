"""Workers must have the versions of this program: other versions give other bits, or cannot read its tasks."""

from collections.abc import Callable, Mapping
from platform import python_version

from limbeck.errors import LimbeckError
from limbeck.versions import versions


def probe() -> Callable[[], dict[str, str]]:
    """Return a function that finds the versions at a worker; it is sent as code, because a worker may lack Limbeck."""

    def found() -> dict[str, str]:
        try:
            from limbeck._version import __version__
        except ImportError:
            return {"limbeck": "none"}
        try:
            from limbeck.versions import versions
        except ImportError:
            return {"limbeck": __version__}
        return versions()

    return found


def is_other_python(version: str) -> bool:
    """Whether a version of Python cannot run the code of this one.

    Examples
    --------
    >>> is_other_python("2.7.18.final.0"), is_other_python(python_version())
    (True, False)
    """
    return version.split(".")[:2] != python_version().split(".")[:2]


def check_versions(cluster: str, workers: Mapping[str, Mapping[str, str]]) -> None:
    """Raise if a worker has another version of Limbeck, Python or a library that both have.

    Parameters
    ----------
    cluster : str
        Address of the cluster, for the message.
    workers : mapping
        Versions at each worker, by its address.

    Raises
    ------
    LimbeckError
        With both versions.

    Examples
    --------
    >>> check_versions("dask://there:8786", {"tcp://node:41": {"python": "2.7.18", "limbeck": "0.0.1"}})
    Traceback (most recent call last):
    limbeck.errors.LimbeckError: cluster dask://there:8786: worker tcp://node:41 has python 2.7.18, this program ...
    """
    ours = versions()
    for worker, theirs in workers.items():
        for name, version in theirs.items():
            differs = is_other_python(version) if name == "python" else ours.get(name, version) != version
            if differs:
                raise LimbeckError(
                    f"cluster {cluster}: worker {worker} has {name} {version}, this program has {name} {ours[name]}; "
                    "install the same versions on both"
                )
