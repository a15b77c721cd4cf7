"""Chaos testing for real Kafka clusters: the names that a program or a test uses.

Start a cluster, break it, and run or verify whole experiments::

    from kafka_chaos import BrokerKill, Chaos, LeaderOf, TopicSpec, launch, run, verify

    with launch() as cluster:
        cluster.admin.create_topic(TopicSpec(name="orders", partitions=1, replication_factor=3))
        with Chaos(cluster, seed=7)(BrokerKill(), LeaderOf("orders", 0)):
            ...  # your own client works here, on cluster.bootstrap

    result = run("mixed", seed=7)
    report = verify("runs/latest")

The decorators `fault`, `target`, `workload`, `scenario`, `checker` and `claim` add things of your
own. A name is imported when it is first used, and only what it needs: faults need the standard
library, `checker` needs Spark.
"""

import functools
import importlib
import importlib.util
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faults.broker_kill import BrokerKill as BrokerKill
    from faults.broker_pause import BrokerPause as BrokerPause
    from faults.broker_stop import BrokerStop as BrokerStop
    from faults.client_link import ClientLink as ClientLink
    from faults.events import BrokerAnswers as BrokerAnswers
    from faults.events import CaughtUp as CaughtUp
    from faults.events import CommitsRest as CommitsRest
    from faults.events import CommitsResume as CommitsResume
    from faults.events import ControllerElected as ControllerElected
    from faults.events import CoordinatorElected as CoordinatorElected
    from faults.events import GroupRebalances as GroupRebalances
    from faults.events import Healed as Healed
    from faults.events import IsrGrew as IsrGrew
    from faults.events import IsrShrank as IsrShrank
    from faults.events import LeaderElected as LeaderElected
    from faults.events import TransactionCoordinatorElected as TransactionCoordinatorElected
    from faults.events import TransactionPrepared as TransactionPrepared
    from faults.fetch_stall import FetchStall as FetchStall
    from faults.gc_pause import GcPause as GcPause
    from faults.link import Link as Link
    from faults.own_command import OwnCommand as OwnCommand
    from faults.partition import Partition as Partition
    from faults.patterns import Alternation as Alternation
    from faults.patterns import Blackout as Blackout
    from faults.patterns import Divided as Divided
    from faults.patterns import LastInSync as LastInSync
    from faults.patterns import Late as Late
    from faults.patterns import Recovering as Recovering
    from faults.patterns import Relapse as Relapse
    from faults.patterns import Returned as Returned
    from faults.patterns import Successor as Successor
    from faults.power_loss import PowerLoss as PowerLoss
    from faults.targets import AllBrokers as AllBrokers
    from faults.targets import BrokerOfId as BrokerOfId
    from faults.targets import Controller as Controller
    from faults.targets import CoordinatorOf as CoordinatorOf
    from faults.targets import FollowerOf as FollowerOf
    from faults.targets import IsrDownTo as IsrDownTo
    from faults.targets import LastRestarted as LastRestarted
    from faults.targets import LeaderAndFollower as LeaderAndFollower
    from faults.targets import LeaderOf as LeaderOf
    from faults.targets import Majority as Majority
    from faults.targets import Minority as Minority
    from faults.targets import OutOfSync as OutOfSync
    from faults.targets import RandomBroker as RandomBroker
    from faults.targets import TransactionCoordinatorOf as TransactionCoordinatorOf
    from faults.targets import TwoFollowers as TwoFollowers
    from faults.witness import answers as answers
    from faults.witness import await_answers as await_answers
    from harness.campaigns.conduct import RunResult as RunResult
    from harness.core.cluster import Answer as Answer
    from harness.core.cluster import Broker as Broker
    from harness.core.cluster import Cluster as Cluster
    from harness.core.cluster import ClusterMetadata as ClusterMetadata
    from harness.core.cluster import ClusterSpec as ClusterSpec
    from harness.core.cluster import Disks as Disks
    from harness.core.cluster import GarbageCollections as GarbageCollections
    from harness.core.cluster import Links as Links
    from harness.core.cluster import Nodes as Nodes
    from harness.core.cluster import Processes as Processes
    from harness.core.cluster import TopicSpec as TopicSpec
    from harness.core.contract import Contract as Contract
    from harness.core.errors import ClusterBroken as ClusterBroken
    from harness.core.errors import EnvironmentBroken as EnvironmentBroken
    from harness.core.errors import HealFailed as HealFailed
    from harness.core.errors import HistoryUnreadable as HistoryUnreadable
    from harness.core.errors import KafkaChaosError as KafkaChaosError
    from harness.core.errors import PreconditionUnmet as PreconditionUnmet
    from harness.core.errors import UsageError as UsageError
    from harness.core.errors import WaitTimeout as WaitTimeout
    from harness.core.event import Event as Event
    from harness.core.event import event as event
    from harness.core.fault import Evidence as Evidence
    from harness.core.fault import Fault as Fault
    from harness.core.fault import FaultTraits as FaultTraits
    from harness.core.fault import Target as Target
    from harness.core.fault import TargetTraits as TargetTraits
    from harness.core.fault import fault as fault
    from harness.core.fault import target as target
    from harness.core.pattern import Alone as Alone
    from harness.core.pattern import Deck as Deck
    from harness.core.pattern import Pattern as Pattern
    from harness.core.pattern import pattern as pattern
    from harness.core.scenario import After as After
    from harness.core.scenario import Scenario as Scenario
    from harness.core.scenario import Step as Step
    from harness.core.scenario import scenario as scenario
    from harness.core.schedule import Mix as Mix
    from harness.core.schedule import Script as Script
    from harness.core.verdict import Verdict as Verdict
    from harness.core.version import Versions as Versions
    from harness.core.view import View as View
    from harness.core.wait import wait_until as wait_until
    from harness.core.workload import ClientSpec as ClientSpec
    from harness.core.workload import Workload as Workload
    from harness.core.workload import workload as workload
    from harness.lab.claim import Claim as Claim
    from harness.lab.claim import Expectation as Expectation
    from harness.lab.claim import claim as claim
    from harness.lab.lab import Lab as Lab
    from kafka_chaos.clusters import Chaos as Chaos
    from kafka_chaos.clusters import launch as launch
    from kafka_chaos.recorder import Recorder as Recorder
    from kafka_chaos.records import Read as Read
    from kafka_chaos.records import Sent as Sent
    from kafka_chaos.runs import run as run
    from kafka_chaos.runs import verify as verify
    from verifiers.checking.checker import Severity as Severity
    from verifiers.checking.checker import checker as checker
    from verifiers.checking.checker import offences as offences
    from verifiers.run_folder.result import Report as Report
    from workloads.consumer_group import ConsumerGroup as ConsumerGroup
    from workloads.send_poll import SendPoll as SendPoll
    from workloads.transactional import Transactional as Transactional


@functools.cache
def _modules() -> dict[str, str]:
    """Return the module of each public name: the imports above, which only a type checker does."""
    text = Path(__file__).read_text(encoding="utf-8")
    imports = re.findall(r"^    from (\S+) import (\w+) as ", text, re.MULTILINE)
    return {name: module for module, name in imports}


def _import_name(name: str) -> object:
    """Import a public name when it is first used.

    Raises:
        AttributeError: there is no such name.
        ImportError: another package hides one of ours.
    """
    if name not in _modules():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    check_packages()
    value: object = getattr(importlib.import_module(_modules()[name]), name)
    globals()[name] = value
    return value


if not TYPE_CHECKING:
    # A type checker that saw it would take every name for a public one.
    __getattr__ = _import_name


def __dir__() -> list[str]:
    return sorted(_modules())


@functools.cache
def check_packages() -> None:
    """Refuse to work with somebody else's package of one of our names.

    Raises:
        ImportError: one of them comes first on the import path; the message says where it lies.
    """
    root = Path(__file__).resolve().parent.parent
    for name in ("harness", "faults", "workloads", "verifiers"):
        spec = importlib.util.find_spec(name)
        folders = [] if spec is None else list(spec.submodule_search_locations or ())
        if str(root / name) not in map(os.path.realpath, folders):
            found = folders[0] if folders else "nothing" if spec is None else spec.origin
            raise ImportError(
                f"kafka-chaos needs its own package {name!r} from {root}, and Python finds "
                f"{found} first: rename that, or keep its folder off the import path (`pytest` "
                "in place of `python -m pytest`, or --import-mode=importlib)."
            )
