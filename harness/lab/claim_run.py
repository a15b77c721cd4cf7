"""The run of a claim: its script works in a lab."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.cluster.pool import ClusterPool
from harness.core.cluster import ClusterSpec, TopicSpec
from harness.core.contract import Contract
from harness.core.errors import PreconditionUnmet, WaitTimeout
from harness.core.run_dir import SCHEMA, canonical_json
from harness.core.workload import ClientSpec
from harness.lab.claim import Claim
from harness.lab.lab import Lab
from harness.run.context import RunContext
from workloads.send_poll import SendPoll


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRun:
    """Runs one claim on one version.

    Attributes:
        name: the claim's name, also that of its topic.
        claim: what is claimed.
        kafka: version of the brokers.
        before: told of each thing that the script is about to do.
    """

    name: str
    claim: Claim
    kafka: str
    before: Callable[[Lab, str], None] = lambda *_: None

    @property
    def cluster(self) -> ClusterSpec:
        """The cluster that is started."""
        return ClusterSpec(
            kafka=self.kafka,
            brokers=self.claim.brokers,
            controllers=self.claim.controllers,
            heap_mib=self.claim.heap_mib,
            config=tuple(sorted(self.claim.config(self.kafka).items())),
        )

    @property
    def client(self) -> None:
        """A claim is about brokers: its clients are the harness's own."""

    @property
    def contract(self) -> Contract:
        """What the producers are promised, as far as brokers of this version can keep it."""
        return self.claim.contract.kept_by(self.kafka)

    @property
    def full_isr_within_s(self) -> float:
        """How long the ISRs may take to be full again at the end, seconds."""
        return self.claim.full_isr_within_s

    @property
    def _workload(self) -> SendPoll:
        return SendPoll(
            topic=self.name,
            partitions=len(self.claim.assignment),
            consumers=0,
            subscribers=0,
            isolation="read_uncommitted",
        )

    def pool(self, shared: ClusterPool) -> ClusterPool:
        """Return the pool of the cluster: the shared one, unless the claim wants a fresh one."""
        return ClusterPool() if self.claim.needs_fresh_cluster else shared

    def topics(self) -> tuple[TopicSpec, ...]:
        """Return the one topic, with the assignment of the claim."""
        (topic,) = self._workload.topics(self.contract)
        return (replace(topic, assignment=self.claim.assignment),)

    def readers(self) -> tuple[ClientSpec, ...]:
        """Return the final readers."""
        return self._workload.readers(self.contract)

    def described(self) -> Mapping[str, Any]:
        """Return the fields of run.json that only a claim has."""
        return {
            "scenario": self.name,
            "claim": self.name,
            "varied": self.claim.variation.words(),
            "provokes": [],
            "duration_s": 0.0,
            # A script counts its few records itself.
            "fewest_acked": 1,
            "clients": [
                {"process": reader.process, "role": reader.role, "mode": None}
                for reader in self.readers()
            ],
        }

    def again(self, run: Path, seed: int) -> str:  # noqa: ARG002 (a claim is known by its name)
        """Return the command line that puts the claim to the same test."""
        variation = self.claim.variation
        flags = {"acks": "--acks", "min_isr": "--min-isr"}
        varied = [f" {flags[name]} {value}" for name, value in variation.contract.items()]
        varied += [f" --set {name}={value}" for name, value in variation.config.items()]
        command = f"kafka-chaos claims run {self.name} --kafka {self.kafka} --seed {seed}"
        return command + "".join(varied)

    def plan_json(self, seed: int) -> str:
        """Return what is claimed and expected: a script has no other plan."""
        expectation = self.claim.expectation(self.kafka)
        return canonical_json(
            {
                "schema": SCHEMA,
                "scenario": self.name,
                "claim": {
                    "number": self.claim.number,
                    "sentence": self.claim.sentence,
                    "source": self.claim.source,
                    "expected": expectation.words if expectation else None,
                },
                "seed": seed,
                "steps": [],
            }
        )

    def carry_out(self, context: RunContext) -> None:
        """Carry out the script; a precondition that is not met ends it and is recorded."""
        context.run_dir.update(origin_ns=time.monotonic_ns())
        always = self.claim.variation.contract
        lab = Lab(context, self.contract, always=always, before=self.before)
        try:
            with context.phase("faults"):
                self.claim.script(lab)
        except (PreconditionUnmet, WaitTimeout) as error:
            lab.note_unmet(str(error))
            context.progress.say(f"A precondition was not met: {error}")
        finally:
            with context.phase("heal"):
                lab.finish()
