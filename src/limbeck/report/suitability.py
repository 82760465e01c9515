"""How suitable public rows are for the private rows, in words and as a picture."""

from pathlib import Path

from rich.console import Group

from limbeck.data.suitability import Suitability
from limbeck.report.pictures import new_figure, save_figure
from limbeck.report.tables import percent

EXPLANATIONS = {
    "perfect": "The public rows are like the private ones: what is learned on them holds for the private rows.",
    "good": "Public and private rows differ slightly but overlap well. The public rows are suitable.",
    "poor": "Most private rows have no public neighbour: what is learned on these public rows may not hold for them.",
}
BAR = 40


def suitability_report(fit: Suitability) -> Group:
    """Return the assessment in words, with its figures as bars."""
    constant = f"{fit.constant_columns} of {fit.features}"
    return Group(
        f"{fit.assessment}. {EXPLANATIONS[fit.assessment]}",
        "",
        f"coverage           {_bar(fit.coverage)} {percent(fit.coverage)} of private rows have a public row near them",
        f"separable (AUC)    {_bar(2 * max(fit.auc, 0.5) - 1)} {fit.auc:.3f}; 0.5 is not at all, 1 is always",
        f"constant columns   {_bar(fit.constant_columns / fit.features)} {constant} vary in private rows only",
    )


def save_suitability_picture(fit: Suitability, path: Path) -> None:
    """Save a histogram of the distances from each row to the nearest public row as a PNG file."""
    figure, axes = new_figure(7, 3.5)
    both = [fit.public_distances, fit.private_distances]
    axes.hist(both, bins=40, density=True, histtype="stepfilled", alpha=0.6, label=["public rows", "private rows"])
    axes.axvline(fit.near, color="black", linestyle=":", label="still near")
    axes.set(xlabel="distance to the nearest public row", ylabel="density", title=f"Public rows: {fit.assessment}")
    axes.legend()
    save_figure(figure, path)


def _bar(share: float) -> str:
    filled = round(BAR * share)
    return "█" * filled + "░" * (BAR - filled)
