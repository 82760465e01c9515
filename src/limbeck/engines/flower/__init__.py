"""Letters between real organisations, carried by Flower: the only room that knows it."""

import os

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
