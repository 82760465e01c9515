"""The app that a Flower run names: Limbeck itself, of one version. It is never unpacked; a party runs its own."""

import hashlib
import io
import zipfile

from limbeck._version import __version__

ABOUT = f"""
[project]
name = "limbeck"
version = "{__version__}"
description = "Federated learning by knowledge transfer."
license = "Apache-2.0"
[tool.flwr.app]
publisher = "limbeck"
[tool.flwr.app.components]
serverapp = "limbeck:none"
clientapp = "limbeck:none"
[tool.flwr.app.config]
"""
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same bytes, whenever and wherever they are made


def app_bundle() -> bytes:
    """The bytes of the app: nothing but its name and version."""
    bundle = io.BytesIO()
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("pyproject.toml", EPOCH), ABOUT)
    return bundle.getvalue()


def app_hash() -> str:
    """What a run must name for a party to answer it."""
    return hashlib.sha256(app_bundle()).hexdigest()
