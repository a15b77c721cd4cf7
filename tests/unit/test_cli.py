"""The command line: every exit code, and a clear sentence instead of a traceback."""

import inspect
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli import main as cli
from harness.cli.settings import scenario_of
from harness.core import errors
from harness.core.errors import KafkaChaosError

COMPOSE = str(Path(__file__).parents[2] / "examples" / "compose.yaml")

Invoke = Callable[..., tuple[int, str, str]]


@pytest.fixture
def invoke(invoke_raw: Invoke) -> Invoke:
    """Run the command line; stderr comes as it was printed."""
    return invoke_raw


@pytest.mark.usefixtures("no_engine")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("run", "--min-isr", "4"), "can never be met"),
        (("run", "--replication-factor", "6"), "needs as many brokers"),
        (("run", "--workload", "transactionl"), "Did you mean 'transactional'?"),
        (("run", "--workload", "transactional", "--acks", "1"), "need an idempotent producer"),
        (("plan", "--workload", "transactional", "--kafka", "0.10.2.2"), "0.11 was the first"),
        (("nightly", "--workload", "transactionl"), "Did you mean 'transactional'?"),
        (("run", "--workload", "transactional", "--headers", "3"), "has no headers"),
        (
            ("run", "--partitioning", "colour"),
            "is not one of 'turn', 'hash', 'sticky'",
        ),
        (("run", "--compression", "zip"), "is not one of 'none', 'gzip'"),
        (("run", "--seek-every", "soon"), "soon"),
        (("run", "--brokers", "12"), "choose 1 to 9"),
        (("run", "--duration", "5 minutes"), "is not a duration"),
        (("run", "--duration", "2s"), "too short"),
        (("run", "--faults", "broker_kil"), "Did you mean 'broker_kill'"),
        (("search", "--stop-at", "lost-writes"), "Did you mean 'lost-write'"),
        (
            ("search", "--stop-at", "lost-write(explaned)"),
            "it has explained, destroyed, last-known",
        ),
        (("search", "--stop-at", "duplicate(x),lost-write"), "has no kind 'x'"),
        (("search", "--stop-at", "duplicate", "--stop-at-first"), "leave out one of them"),
        (("run", "--faults", ","), "at least one fault"),
        (
            ("run", "--faults", "partition(listener=none)"),
            "it should be 'all', 'replication'",
        ),
        (("run", "--faults", "partition(side=1)"), "The fault partition has no side; it has"),
        (
            ("run", "--faults", "gc_pause(share=much)"),
            "share='much': it should be",
        ),
        (("run", "--faults", "gc_pause(share=2)"), "0 < share"),
        (
            ("run", "--faults", "broker_kill(now)"),
            "'now' in 'broker_kill(now)' is one value too many",
        ),
        (("run", "--targets", "id"), "The target id needs node_id"),
        (("run", "--targets", "nobody"), "nobody"),
        (("run", "--hold", "20s-2s"), "write the shorter duration first"),
        (("run", "--faults", "broker_kill", "--gap", "soon"), "soon"),
        (("run", "--faults", "gc_pause(share=0.9"), "is no fault"),
        (("run", "--max-in-flight", "6", "--idempotence", "on"), "at most 5 requests"),
        (("run", "--max-in-flight", "0"), "at least 1"),
        (("run", "--linger-ms", "soon"), "--linger-ms"),
        (("run", "--retries", "-1"), "cannot be below 0"),
        (("run", "--batch-size", "0"), "are at least 1"),
        (("run", "--request-timeout", "0.1ms"), "are at least 1"),
        (("run", "--request-timeout", "3s", "--delivery-timeout", "3s"), "linger.ms=5 and request"),
        (("run", "--linger-ms", "4000", "--delivery-timeout", "5s"), "a longer --delivery-timeout"),
        (("run", "--max-at-once", "0"), "0 faults at one time break nothing"),
        (("run", "--available-within", "0"), "'0' is not a duration: write a positive number"),
        (("run", "--again", "nowhere"), "There is no run folder nowhere"),
        (("plan", "--again", "."), "is not a run folder"),
        (("run", "--compose", "nowhere.yaml"), "no Compose file nowhere.yaml"),
        (("run", "--compose", "c.yaml", "--brokers", "3"), "leave out --brokers"),
        (("run", "--compose", COMPOSE, "--client-config", "nowhere"), "nowhere cannot be read"),
        (("run", "nonesuch"), "no scenario 'nonesuch'"),
        (("run", "--acks", "2"), "--acks"),
        (("run", "--rate", "-5"), "rate"),
        (("run", "--keep-cluster", "maybe"), "is not one of 'never', 'failed', 'always'"),
        (("run", "--broker-config", "novalue"), "KEY=VALUE"),
        (("run", "--broker-config", "log.dirs=/tmp"), "set by the harness"),
        (("run", "missing.yaml"), "cannot be read"),
        (("verify", "nowhere"), "no run folder"),
        (("verify", "."), "is not a run folder"),
        (("report", "."), "is not a run folder"),
        (("list", "colours"), "faults"),
        (("bench", "nonesuch"), "no benchmark"),
        (("nightly", "--budget", "soon"), "is not a duration"),
        (("frobnicate",), "frobnicate"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(
    invoke: Invoke, words: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    code, out, err = invoke(*words)

    assert code == 2, err
    assert sentence in " ".join(err.split())
    assert "Traceback" not in err
    assert out == ""
    assert list(tmp_path.iterdir()) == [], "nothing may be started or made"


def test_a_benchmark_tells_its_own_flags(invoke: Invoke) -> None:
    code, out, _ = invoke("bench", "power", "--help")
    _, of_bench, _ = invoke("bench", "--help")

    assert code == 0
    assert "--without" in out
    assert "--without" not in of_bench


def test_the_plan_is_one_json_document_and_always_the_same(invoke: Invoke) -> None:
    _, first, _ = invoke("plan", "--seed", "7", "--json")
    code, second, _ = invoke("plan", "--seed", "7", "--json")

    assert code == 0
    assert first == second
    assert json.loads(first)["seed"] == 7


def test_faults_may_carry_parameters(invoke: Invoke) -> None:
    code, out, err = invoke(
        "plan", "--json", "--seed", "7", "--duration", "120s",
        "--faults", "broker_kill, partition(listener=replication),gc_pause(share=0.9)",
    )  # fmt: skip

    assert code == 0, err
    dealt = [step["fault"] for step in json.loads(out)["steps"]]
    faults = {fault["name"]: fault["parameters"] for fault in dealt}
    assert set(faults) == {"broker_kill", "partition", "gc_pause"}
    assert faults["partition"]["listener"] == "replication"
    assert faults["gc_pause"] == {"share": 0.9, "nodes": 0}


def test_the_producers_settings_are_part_of_the_contract() -> None:
    nothing = dict.fromkeys(inspect.signature(cli.run).parameters)
    given = {"retries": 0, "max_in_flight": 1, "linger_ms": 2.5, "batch_size": 4096}

    contract = scenario_of({**nothing, **given}).contract

    assert (contract.retries, contract.max_in_flight) == (0, 1)
    assert (contract.linger_ms, contract.batch_size_bytes) == (2.5, 4096)


KNOWN = {
    "faults": {"broker_kill", "partition"},
    "scenarios": {"mixed", "leader_cut_and_kill"},
    "workloads": {"send_poll", "transactional", "consumer_group"},
    "checkers": {"lost-write", "duplicate"},
    "targets": {"leader_of", "random"},
    "claims": {"acks1-loss-on-leader-kill"},
    "contracts": {"lost-write"},
}


@pytest.mark.parametrize("kind", sorted(KNOWN))
def test_lists_say_what_everything_means(invoke: Invoke, kind: str) -> None:
    code, out, _ = invoke("list", kind, "--json")

    meanings = json.loads(out)
    assert code == 0
    assert set(meanings) >= KNOWN[kind]
    assert [name for name, meaning in meanings.items() if not meaning.endswith(".")] == []


def test_a_scenario_file_stands_below_flags_and_above_the_project(
    invoke: Invoke, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[tool.kafka-chaos]\nseed = 1\nduration = '40s'\nmax-at-once = 2\n"
    )
    (tmp_path / "mine.yaml").write_text("scenario: mixed\nduration: 50s\nseed: 2\n")

    _, out, _ = invoke("plan", "mine.yaml", "--seed", "3", "--json")

    plan = json.loads(out)
    assert (plan["seed"], plan["duration_s"], plan["max_at_once"]) == (3, 50, 2)


def test_the_environment_stands_above_the_file(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_CHAOS_DURATION", "60s")
    (tmp_path / "mine.yaml").write_text("scenario: mixed\nduration: 50s\n")

    _, out, _ = invoke("plan", "mine.yaml", "--seed", "3", "--json")

    assert json.loads(out)["duration_s"] == 60


@pytest.mark.parametrize(
    "text", ["sead: 7\n", "- 1\n", "duration: [\n", "workload: {rate: 5}\n"], ids=repr
)
def test_a_scenario_file_with_a_mistake_is_refused(
    invoke: Invoke, tmp_path: Path, text: str
) -> None:
    (tmp_path / "mine.yaml").write_text(text)

    code, _, err = invoke("plan", "mine.yaml")

    assert code == 2
    assert "mine.yaml" in err.replace("\n", "")


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--kafka", "4.3.1", "--metadata", "zookeeper"), "no ZooKeeper mode"),
        (("--kafka", "2.8.2", "--metadata", "kraft"), "has no KRaft"),
        (("--kafka", "0.10.2.2", "--idempotence", "on"), "no idempotent producers"),
        (("--kafka", "2.8.2", "--feature", "metadata.version=7"), "ZooKeeper mode has none"),
        (("--feature", "metadata.version"), "is not KEY=VALUE"),
        (("--feature", "metadata.version=new"), "it should be a valid integer"),
    ],
)
def test_what_a_version_does_not_have_is_a_usage_error(
    invoke: Invoke, flags: tuple[str, ...], sentence: str
) -> None:
    code, _, err = invoke("plan", *flags)

    assert code == 2
    assert sentence in " ".join(err.split())


def test_every_error_of_ours_has_the_exit_code_of_the_design() -> None:
    codes = {
        error.__name__: error.exit_code
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, KafkaChaosError)
    }

    assert codes == {
        "KafkaChaosError": 70,
        "UsageError": 2,
        "HistoryUnreadable": 3,
        "EnvironmentBroken": 4,
        "ClusterBroken": 4,
        "SparkEnded": 4,
        "WaitTimeout": 4,
        "PreconditionUnmet": 3,
        "HealFailed": 5,
    }


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("run",), "Name the claims to run, or give --all"),
        (("run", "18", "--all"), "Name the claims to run, or give --all"),
        (("run", "999"), "There is no claim number 999"),
        (("run", "acks1-loss"), "There is no claim 'acks1-loss'"),
        (("show", "999"), "There is no claim number 999"),
        (("run", "18", "--kafka", "four"), "is no Kafka version"),
        (("run", "18", "--keep-cluster", "maybe"), "is not one of 'never', 'failed', 'always'"),
        (("page", "claims.md"), "No claim has been tried"),
    ],
)
def test_what_cannot_be_claimed_is_one_sentence(
    invoke: Invoke, words: tuple[str, ...], sentence: str
) -> None:
    code, out, err = invoke("claims", *words)

    assert code == 2
    assert out == ""
    assert sentence in " ".join(err.split())
    assert not Path("runs").exists()


def test_a_claim_is_shown_with_what_it_rests_on_and_its_script(invoke: Invoke) -> None:
    code, out, err = invoke("claims", "show", "18")

    assert code == 0, err
    for words in (
        "18 · acks1-loss-on-leader-kill",
        "Kafka's documentation of the producer's acks",
        "acks and min.insync.replicas",
        "acks=1",
        "3 brokers; replicas on 1, 2, 3, the first one leads",
        "replica.lag.time.max.ms=60000",
        "all: loses what the leader alone had",
        "last: never tried",
        "acks1_loss_on_leader_kill.py",
        "lab.kill(a)",
    ):
        assert words in out
    document = json.loads(invoke("claims", "show", "acks1-loss-on-leader-kill", "--json")[1])
    assert document["contract"]["acks"] == "1"
    assert document["script"].startswith("def script")


def test_claims_are_listed_with_versions_and_expectations(invoke: Invoke) -> None:
    code, out, _ = invoke("claims", "list", "--json")

    listed = {entry["claim"]: entry for entry in json.loads(out)}
    headline = listed["kip101-hw-truncation-loss"]
    assert code == 0
    assert headline["number"] == 1
    assert headline["expects"] == {
        "before 0.11": "loses the batch",
        "0.11 and later": "keeps it",
    }
    assert headline["last"] == {}
    assert "1  kip101-hw-truncation-loss" in invoke("claims")[1]
    assert set(json.loads(invoke("list", "claims", "--json")[1])) == set(listed)


def test_an_error_nobody_foresaw_is_exit_70(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    def burst(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(cli, "_meanings", burst)

    code, _, err = invoke("list", "faults")

    assert code == 70
    assert "please report" in err


def test_an_interrupt_is_exit_130(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_meanings", interrupt)

    assert invoke("list", "faults")[0] == 130


@pytest.mark.usefixtures("no_engine")
def test_no_engine_is_exit_4(invoke: Invoke) -> None:
    code, _, err = invoke("heal")

    assert code == 4
    assert "doctor --fix" in " ".join(err.split())


def test_the_project_may_set_what_only_some_commands_take(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[tool.kafka-chaos]\nseed = 1\nstore = 'elsewhere'\nbudget = '8h'\nmaster = 'local[1]'\n"
    )

    code, out, err = invoke("plan", "--json")

    assert code == 0, err
    assert json.loads(out)["seed"] == 1


def test_a_misspelled_setting_of_the_project_is_refused(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.kafka-chaos]\nsead = 1\n")

    code, _, err = invoke("plan")

    assert code == 2
    assert "sead" in err


@pytest.mark.usefixtures("no_engine")
def test_healing_works_whatever_the_project_says(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.kafka-chaos\n")

    assert invoke("heal")[0] == 4, "there is no engine, and that is all that is wrong"


STEPS = """\
scenario: mixed
duration: 50s
max-at-once: 2
steps:
  - at: 5s
    fault: broker_kill
    target: leader_of
    hold: 12s
  - after: leader_elected
    delay: 500ms
    fault: partition(listener=replication)
    target: leader_of(partition=1)
    hold: 10s
"""


def test_a_scenario_file_may_hold_the_steps(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(STEPS)

    _, out, _ = invoke("plan", "mine.yaml", "--topic-partitions", "4", "--json")
    code, _, err = invoke("validate", "mine.yaml")

    first, second = json.loads(out)["steps"]
    assert (first["at_s"], first["hold_s"], first["fault"]["name"]) == (5, 12, "broker_kill")
    assert first["target"] == {
        "name": "leader_of", "parameters": {"topic": "orders", "partition": 0},
    }  # fmt: skip
    assert second["after"] == {
        "event": {"name": "leader_elected", "parameters": {"topic": "orders", "partition": 0}},
        "delay_s": 0.5,
        "within_s": 30,
    }
    assert (second["fault"]["parameters"]["listener"], second["at_s"]) == ("replication", 5)
    assert code == 0
    assert "In order" in err


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("broker_kill", "broker_kil", "mine.yaml:6:5: There is no fault 'broker_kil'. Did you"),
        ("max-at-once", "max-at-one", "mine.yaml:3:1: There is no setting max-at-one. Did you"),
        ("duration: 50s", "duration: 50", "mine.yaml:2:1: '50' is not a duration"),
        ("duration: 50s", "faults: [gc_paus]", "mine.yaml:2:1: There is no fault 'gc_paus'. Did"),
        ("    hold: 10s\n", "", "mine.yaml:9:5: A step needs its hold."),
        ("delay", "dealy", "mine.yaml:10:5: A step has no dealy. Did you mean delay?"),
        ("leader_elected", "leader_electd", "mine.yaml:9:5: There is no event"),
        ("after: leader_elected", "at: 20s", "mine.yaml:10:5: delay tells of an event"),
        ("partition=1", "partition=x", "mine.yaml:12:5: The target leader_of"),
        ("steps:", "steps: 5\nfaults:", "mine.yaml:4:1: steps is to be a list of steps"),
    ],
)
def test_a_mistake_is_told_by_line_and_column(
    invoke: Invoke, tmp_path: Path, old: str, new: str, sentence: str
) -> None:
    (tmp_path / "mine.yaml").write_text(STEPS.replace(old, new, 1))

    code, _, err = invoke("validate", "mine.yaml")

    assert code == 2
    assert sentence in " ".join(err.split())


def test_steps_of_a_file_are_refused_by_who_deals_its_own(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(STEPS)

    code, _, err = invoke("matrix", "mine.yaml")

    assert code == 2
    assert "has steps" in err


def test_a_plan_is_carried_out_as_it_was_written(invoke: Invoke, tmp_path: Path) -> None:
    _, written, _ = invoke("plan", "search", "--seed", "7", "--duration", "70s", "--json")
    (tmp_path / "plan.json").write_text(written)

    code, read, _ = invoke("plan", "--plan", "plan.json", "--json")

    assert code == 0
    assert read == written
    # What it does not say may be chosen.
    _, other, _ = invoke("plan", "--plan", "plan.json", "--kafka", "0.10.2.2", "--json")
    assert other == written


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is no plan that can be read"),
        ("[]", "is no plan: it has no scenario"),
        ('{"scenario": "mixed", "seed": 1, "duration_s": 9, "max_at_once": 1, "steps": [5]}',
         "one of its steps is no object"),
        ('{"scenario": "mixed", "seed": 1, "duration_s": 9, "max_at_once": 1, "steps": [{}]}',
         "A step lacks its fault, target, hold_s"),
        ('{"scenario": "mixed", "seed": 1, "duration_s": 9, "max_at_once": 1, "steps": '
         '[{"fault": "broker_kill", "target": "all", "hold_s": "5s"}]}',
         "is a number of seconds"),
    ],
)  # fmt: skip
def test_what_is_no_plan_is_refused(
    invoke: Invoke, tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "plan.json").write_text(text)

    code, _, err = invoke("plan", "--plan", "plan.json")

    assert code == 2
    assert sentence in " ".join(err.split())


def test_a_plan_says_what_is_broken(invoke: Invoke, tmp_path: Path) -> None:
    _, written, _ = invoke("plan", "--seed", "7", "--json")
    (tmp_path / "plan.json").write_text(written)

    code, _, err = invoke("plan", "--plan", "plan.json", "--faults", "broker_kill")

    assert code == 2
    assert "leave out --faults" in err
