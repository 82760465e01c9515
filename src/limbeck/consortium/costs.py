"""What a run between organisations would send and how long it would compute, estimated on made-up rows."""

import numpy as np

from limbeck.consortium.experiment import PreparedRun
from limbeck.errors import LimbeckError
from limbeck.experiments.estimate import Estimate, estimate
from limbeck.experiments.federation import Federation
from limbeck.protocol.rows import Rows


def estimated(plan: PreparedRun, parties: int) -> Estimate | str:
    """Estimate the costs of a run by short runs on made-up rows in this process.

    Parameters
    ----------
    plan : PreparedRun
        The experiment with its rows.
    parties : int
        Number of parties.

    Returns
    -------
    Estimate or str
        The estimate, or why there is none.

    Notes
    -----
    The coordinator does not know the parties' rows and models. Each party is taken to have as many rows as there are
    public ones, and the coordinator's model.
    """
    try:
        return estimate(_federation(plan, parties))
    except LimbeckError as error:
        return str(error)


def _federation(plan: PreparedRun, parties: int) -> Federation:
    """The run with public rows in place of private ones; their labels are not used."""
    configuration, data = plan.configuration, plan.configuration.data
    shape = Rows(plan.public.x, np.zeros(len(plan.public), np.int64))
    return Federation(
        algorithm=configuration.algorithm,
        seed=configuration.seed,
        classes=np.array(data.classes),
        private=[shape] * parties,
        models=[configuration.model] * parties,
        server_model=configuration.model,
        public=plan.public,
        schema=plan.schema,
        features=plan.features,
        public_hash=plan.public_hash,
        public_is_labelled=data.labelled,
        config={},
        folder=plan.folder,
        task=data.whole_task,
    )
