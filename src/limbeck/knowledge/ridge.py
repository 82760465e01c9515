"""Ridge regression from sums of features: a linear classifier, and how much the sums' noise shrinks it."""

import numpy as np
from scipy import optimize

from limbeck.protocol.rows import Array


def ridge(mean: Array, gram: Array, error: Array) -> tuple[Array, float]:
    """Solve gram @ weights = mean, where mean has errors of known size.

    Parameters
    ----------
    mean : array of shape (features, classes)
        Mean of phi(x) onehot(y)^T over rows.
    gram : array of shape (features, features)
        Mean of phi(x) phi(x)^T.
    error : array of shape (2,)
        Variance of an error on each number of `mean`: a constant part, and a part in proportion to the eigenvalue of
        `gram` in whose direction the number lies.

    Returns
    -------
    weights : array of shape (features, classes)
        The weights.
    regularization : float
        What the solution adds to the eigenvalues of `gram` for the second part of the error.

    Notes
    -----
    In an eigenvector of `gram` with eigenvalue g, mean is r = g w + e, where e has the variance n = error[0] +
    error[1] g. With w ~ N(0, t), the posterior mean of w is r g t / (g^2 t + n). The variance t of the weights
    maximizes the likelihood of all r, so that there is no parameter to tune (empirical Bayes).

    Examples
    --------
    >>> weights, _ = ridge(np.array([[1.0], [0.5]]), np.diag([2.0, 1.0]), np.array([0.0, 1e-9]))
    >>> weights.round(3).tolist()
    [[0.5], [0.5]]
    """
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, 0.0)
    seen = vectors.T @ mean
    squares, classes = (seen**2).sum(axis=1), seen.shape[1]
    variance = np.maximum(error[0] + error[1] * values, 1e-30)

    def surprise(log_scale: float) -> float:
        total = np.exp(log_scale) * values**2 + variance
        return float((classes * np.log(total) + squares / total).sum())

    scale = float(np.exp(optimize.minimize_scalar(surprise, bounds=(-30, 30), method="bounded").x))
    shrunk = seen * (values * scale / (values**2 * scale + variance))[:, None]
    return np.asarray(vectors @ shrunk), float(error[1] / scale)


def label_variance(shares: Array) -> float:
    """Mean variance of the labels' indicators.

    Parameters
    ----------
    shares : array of shape (classes,)
        Shares of the classes, possibly with noise.

    Returns
    -------
    float
        Mean of share (1 - share), with shares between 0 and 1.

    Examples
    --------
    >>> label_variance(np.array([0.5, 0.5]))
    0.25
    """
    limited = np.clip(shares, 0.0, 1.0)
    return max(float((limited * (1 - limited)).mean()), 1e-3)
