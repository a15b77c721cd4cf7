"""Claims: sentences about Kafka, each with the experiment that tests it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from harness.core.contract import Contract
from harness.core.errors import UsageError
from harness.core.registry import Registry
from harness.core.version import Versions
from harness.lab.finding import Test
from harness.lab.lab import Lab
from harness.lab.variation import Variation

Subject = Literal[
    "leader epochs",
    "log end and high watermark",
    "the ISR",
    "acks and min.insync.replicas",
    "fetch sessions",
    "idempotence and order",
    "consumer groups",
    "something else",
]
"""What claims are about, as articles on Kafka go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a claim expects of some versions.

    Attributes:
        versions: of which versions.
        words: what is expected, short enough for a table: "loses the batch".
        test: whether a run shows it.
    """

    versions: Versions = field(default_factory=Versions)
    words: str
    test: Test


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One sentence about Kafka, and the script that tests it.

    Attributes:
        number: its number in the catalogue: a stable name; gaps mean nothing.
        sentence: what is claimed.
        source: KIP, issue, or where in Kafka's code it can be read.
        expects: what is expected of which versions; the first that covers a version counts. The
            claim says nothing about a version that none covers.
        script: the recipe.
        subject: what it is about.
        contract: what the producers are promised, unless the script says otherwise.
        assignment: replicas of each partition by node id, the preferred leader first.
        brokers: how many brokers.
        controllers: isolated controllers (KRaft), or extra brokers that are started first and
            serve as controller (ZooKeeper); 0: the brokers themselves.
        config: properties of the brokers of a version.
        heap_mib: heap of each broker, MiB.
        needs_fresh_cluster: whether its cluster must not have run another claim before, for
            example because the script reads counters of the brokers.
        full_isr_within_s: how long the ISRs may take to be full again at the end, seconds.
        variation: in what the experiment differs from what is claimed, where somebody asked for it.
    """

    number: int
    sentence: str
    source: str
    expects: tuple[Expectation, ...]
    script: Callable[[Lab], None]
    subject: Subject = "something else"
    contract: Contract = field(default_factory=Contract)
    assignment: tuple[tuple[int, ...], ...] = ((1, 2, 3),)
    brokers: int = 3
    controllers: int = 1
    config: Callable[[str], Mapping[str, str]] = lambda _: {}
    heap_mib: int = 256
    needs_fresh_cluster: bool = False
    full_isr_within_s: float = 90.0
    variation: Variation = field(default_factory=Variation)

    def __post_init__(self) -> None:
        """Reject an assignment that the contract or the cluster contradicts.

        Raises:
            UsageError: naming the replicas.
        """
        for replicas in self.assignment:
            if len(replicas) != self.contract.replication_factor:
                raise UsageError(
                    f"Claim {self.number}: the replicas {replicas} are not the "
                    f"{self.contract.replication_factor} of the contract."
                )
            if not set(replicas) <= set(range(1, self.brokers + 1)):
                raise UsageError(
                    f"Claim {self.number}: the replicas {replicas} are not all among the "
                    f"{self.brokers} brokers."
                )

    def varied(self, variation: Variation) -> "Claim":
        """Return the claim with another experiment than its own.

        Raises:
            UsageError: there is no such contract.
        """
        return replace(
            self,
            contract=replace(self.contract, **variation.contract),
            config=lambda kafka: {**self.config(kafka), **variation.config},
            variation=variation,
        )

    def spoken_of(self) -> dict[str, str]:
        """Return what is expected, by versions: "0.11 and later", "all others"."""
        words = {str(e.versions): e.words for e in self.expects}
        if len(words) > 1 and "all" in words:
            words["all others"] = words.pop("all")
        return words

    def expectation(self, kafka: str) -> Expectation | None:
        """Return what is expected of a version, or None if the claim says nothing about it."""
        return next((e for e in self.expects if kafka in e.versions), None)


CLAIMS: Registry[Callable[[], Claim]] = Registry("claim", "harness.claims")
claim = CLAIMS.register


def claims_by_subject() -> dict[str, dict[str, Claim]]:
    """Return the claims by name, for each subject that there are claims of, in order."""
    named = sorted(((name, make()) for name, make in CLAIMS.items()), key=lambda c: c[1].number)
    grouped = {
        subject: {name: claim for name, claim in named if claim.subject == subject}
        for subject in get_args(Subject)
    }
    return {subject: found for subject, found in grouped.items() if found}


def find_claim(word: str) -> tuple[str, Claim]:
    """Return name and claim for a name or a number.

    Raises:
        UsageError: there is none; the message lists those there are.
    """
    if word.isdigit():
        for name, make in CLAIMS.items():
            if (candidate := make()).number == int(word):
                return name, candidate
        known = ", ".join(str(n) for n in sorted(make().number for make in CLAIMS.values()))
        raise UsageError(f"There is no claim number {word}. There are: {known}.")
    return word, CLAIMS[word]()
