"""The workload none: no client of ours; the topic is for clients of somebody else."""

from dataclasses import dataclass

from harness.core.contract import Contract
from harness.core.workload import ClientSpec, workload
from workloads.load import Load


@workload("none")
@dataclass(frozen=True, slots=True, kw_only=True)
class NoClients(Load):
    """Leave the topic to clients of somebody else: nothing is sent, read or judged.

    Attributes:
        producers: none; nor are there consumers or subscribers.
    """

    producers: int = 0
    consumers: int = 0
    subscribers: int = 0

    def __post_init__(self) -> None:
        """Reject what cannot be run.

        Raises:
            UsageError: with the number and its bounds.
        """
        self.reject_beyond(
            partitions=(1, 1000), producers=(0, 0), consumers=(0, 0), subscribers=(0, 0)
        )

    def clients(self, contract: Contract) -> tuple[ClientSpec, ...]:
        """Return no client, whatever the contract."""
        del contract
        return ()

    def readers(self, contract: Contract) -> tuple[ClientSpec, ...]:
        """Return no reader, whatever the contract."""
        del contract
        return ()
