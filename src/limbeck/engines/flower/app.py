"""The Flower app that a run names: Limbeck in one version.

The app has no code and is never unpacked. A party runs its own installation.
"""

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
EPOCH = (1980, 1, 1, 0, 0, 0)  # a fixed date, so that the bytes are always the same


def app_bundle() -> bytes:
    """Bytes of the app: only its name and version."""
    bundle = io.BytesIO()
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("pyproject.toml", EPOCH), ABOUT)
    return bundle.getvalue()


def app_hash() -> str:
    """Hash of the app; a party answers only runs that name it."""
    return hashlib.sha256(app_bundle()).hexdigest()
