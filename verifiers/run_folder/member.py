"""Several runs in one job: keys that no two runs share, and how findings are assigned to runs.

Two runs may both have a topic `orders` and a process 3. Where several runs are verified together,
the topics of a member are renamed to `7/orders`, after its number, and its processes are counted
from a base of its own: no topic of Kafka has a slash in its name, and no process number is as high
as a base. So every frame that is keyed by topic or by process is keyed by run too, and checkers
need not know of it. Offsets and values are keys only together with a topic.

A run that is verified alone keeps its names. What is found of a whole cluster has a topic without a
name, which is null in the end.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from verifiers.frames.history import PROCESS_BITS
from verifiers.run_folder.folder import RunInput
from verifiers.run_folder.large_files import LargeFiles
from verifiers.spark import storage

MEMBER = "member"
"""The column that holds a member's number."""

_SEPARATOR = "/"
_PROCESS_FACTS = (
    "producer", "other_producer", "sent_by", "reader", "last_reader", "given_to", "after_process",
    "committed_by",
)  # fmt: skip
_NAMED_FACTS = ("group", "segment")
"""Details that hold a process, and those that hold a name like that of a topic."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Member:
    """One of the runs that are verified together.

    Attributes:
        run: what its folder holds besides the history.
        number: its place among them.
        span: no process of any of them has this number or a higher one; 0 if it is alone.
    """

    run: RunInput
    number: int = 0
    span: int = 0

    @property
    def base(self) -> int:
        """The number that its processes are counted from."""
        return (self.number + 1) * self.span

    def named(self, name: str) -> str:
        """Return the name of one of its topics, groups or files among all members."""
        return f"{self.number}{_SEPARATOR}{name}" if self.span else name

    def own(self, name: str) -> str:
        """Return the original name of a topic, group or file."""
        return name.partition(_SEPARATOR)[2] if self.span else name

    def numbered(self, process: int) -> int:
        """Return the number of one of its processes among all members."""
        return self.base + process


def homes_of(members: Iterable[Member]) -> dict[str, str]:
    """Return the names of the folders of members' segments, by what `Member.named` puts first."""
    return {member.named(""): LargeFiles.of(member.run.path).segments_home for member in members}


def name_in(homes: Mapping[str, str], file: str) -> str:
    """Return the name by which tasks open a segment, by its path as `Member.named` has it."""
    begin = "" if "" in homes else file[: file.index(_SEPARATOR) + 1]
    return storage.join(homes[begin], file.removeprefix(begin))


def span_of(processes: int) -> int:
    """Return the span for runs whose processes all have lower numbers than this."""
    return 1 << max(0, processes - 1).bit_length()


def most_members(span: int) -> int:
    """Return how many runs can be verified together, given their span."""
    return (1 << PROCESS_BITS) // span - 1


def number_of(name: str) -> int:
    """Return the number of the member that a renamed topic belongs to."""
    number, separator, _ = name.partition(_SEPARATOR)
    return int(number) if separator else 0


def number_column(topic: Column | str, members: Sequence[Member]) -> Column:
    """Return, as a column, the number of the member that a renamed topic belongs to."""
    if len(members) == 1:
        return F.lit(members[0].number)
    return F.substring_index(topic, _SEPARATOR, 1).cast("int")


def number_by_process(members: Sequence[Member]) -> Column:
    """Return, as a column, the number of a row's member by its `process`: not all have a topic."""
    span = members[0].span
    return F.floor(F.col("process") / span).cast("int") - 1 if span else F.lit(members[0].number)


def assigned_to_members(found: DataFrame, members: Sequence[Member]) -> DataFrame:
    """Return rows with the original names of topics, processes and groups, and the member's number.

    Args:
        found: with a column `topic`; `process`, `segment` and `detail` are seen to if it has them.
        members: the runs that were verified together.

    Returns:
        The same columns, and MEMBER before them.
    """
    span = members[0].span
    if not span:
        alone = found.withColumn("topic", F.nullif("topic", F.lit("")))
        return alone.select(F.lit(members[0].number).alias(MEMBER), "*")
    number = number_column("topic", members)
    if "process" in found.columns:
        number = F.coalesce(number, number_by_process(members))

    # This needs a projection of its own: inside a lambda Spark would take the renamed topic.
    numbered = found.select(number.alias(MEMBER), "*")
    base = (F.col(MEMBER) + 1) * span

    def of_process(process: Column) -> Column:
        # A process that is part of a value keeps the number that it has in its run.
        return F.when(process >= span, process - base).otherwise(process)

    def fact(name: Column, text: Column) -> Column:
        process = of_process(text.cast("long")).cast("string")
        return (
            F.when(name.isin(*_PROCESS_FACTS), process)
            .when(name.isin(*_NAMED_FACTS), _own(text))
            .otherwise(text)
        )

    own = {
        "topic": lambda: F.nullif(_own(F.col("topic")), F.lit("")),
        "segment": lambda: _own(F.col("segment")),
        "process": lambda: of_process(F.col("process")).cast("int"),
        "detail": lambda: F.transform_values("detail", fact),
    }
    columns = [own[name]().alias(name) if name in own else F.col(name) for name in found.columns]
    return numbered.select(MEMBER, *columns)


def _own(name: Column) -> Column:
    return F.substr(name, F.locate(_SEPARATOR, name) + 1)
