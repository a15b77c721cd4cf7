"""How much of a campaign's time was spent on what it is for: load, and faults."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from harness.campaigns.scenario_result import ScenarioResult


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSpent:
    """The time of a campaign since it began, or went on.

    Attributes:
        runs: how many were made in it.
        elapsed_s: all of it, seconds.
        load_s: for how long of it clients worked and faults came, seconds.
        under_fault_s: for how long some proven fault was in force, seconds.
    """

    runs: int
    elapsed_s: float
    load_s: float
    under_fault_s: float

    @classmethod
    def of(
        cls,
        results: Sequence[ScenarioResult],
        elapsed_s: float,
        *,
        earlier: Collection[str] = (),
    ) -> "TimeSpent":
        """Return how the time was spent.

        Args:
            results: of all runs of the campaign.
            elapsed_s: since it began, or went on, seconds.
            earlier: names of the runs that were made before it went on.
        """
        made = [result for result in results if result.run not in earlier]
        return cls(
            runs=len(made),
            elapsed_s=elapsed_s,
            load_s=sum(result.measured.load_s for result in made),
            under_fault_s=sum(result.measured.under_fault_s for result in made),
        )

    @property
    def under_load(self) -> float | None:
        """The share of the time under load; None if nothing was made."""
        return self._share(self.load_s)

    @property
    def under_fault(self) -> float | None:
        """The share of the time under some proven fault; None if nothing was made."""
        return self._share(self.under_fault_s)

    @property
    def runs_an_hour(self) -> float:
        """Runs, repetitions among them, in an hour."""
        return 3600 * self.runs / self.elapsed_s if self.elapsed_s else 0.0

    def _share(self, seconds: float) -> float | None:
        return seconds / self.elapsed_s if self.elapsed_s and self.runs else None

    def __str__(self) -> str:
        if self.under_load is None or self.under_fault is None:
            return ""
        return f"{self.under_load:.0%} of the time under load, {self.under_fault:.0%} under fault"

    def document(self) -> dict[str, float | None]:
        """Return the shares as a JSON object; None where nothing was made."""
        shares = {"under_load_share": self.under_load, "under_fault_share": self.under_fault}
        return {name: None if share is None else round(share, 3) for name, share in shares.items()}
