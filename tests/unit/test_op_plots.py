"""The pictures of op histories: what is drawn where, and under which names."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from harness.cli.verify import judge_paths
from harness.core.errors import UsageError
from harness.core.verdict import Verdict
from verifiers.ops.description import Described, Problem
from verifiers.ops.job import prepare_folder
from verifiers.ops.judgement import HistoryVerdict, OpOptions
from verifiers.ops.plots.axes import Axes, Axis
from verifiers.ops.plots.drawing import write_plots
from verifiers.ops.plots.lag_picture import lag_picture
from verifiers.ops.plots.lag_series import KEY, THREAD, Lags, MemberLag, Stretch
from verifiers.ops.plots.names import safe_names
from verifiers.ops.plots.order_picture import order_picture
from verifiers.ops.plots.orders import Cell, OpRow, Order, Orders, Suspect
from verifiers.ops.plots.plane import Scale, palette, told_time
from verifiers.ops.plots.series import Series
from verifiers.ops.plots.threads import Life, threads_of
from verifiers.ops.plots.unseen import Layer, Unseen
from verifiers.ops.plots.unseen_picture import unseen_picture
from verifiers.report.svg import num

SVG = "{http://www.w3.org/2000/svg}"
AXIS = Axis(timed=True, low=0, high=10_000_000_000, drain=8_000_000_000)
SERIES = Unseen(
    moments=(0, 5_000_000_000),
    layers=(
        Layer(key="a", counts=(4, 1), most=4),
        Layer(key=None, counts=(0, 2), most=None),
    ),
    keys=11,
)


def drawn(svg: str) -> ET.Element:
    """Parse a picture: it must be XML, and no text may lie outside of it."""
    root = ET.fromstring(svg)  # noqa: S314 - our own
    width, height = (float(root.attrib[name]) for name in ("width", "height"))
    for text in root.iter(f"{SVG}text"):
        if "x" in text.attrib:
            assert 0 <= float(text.attrib["x"]) <= width, text.text
            assert 0 <= float(text.attrib["y"]) <= height, text.text
    return root


def words(root: ET.Element) -> list[str]:
    return [str(text.text) for text in root.iter(f"{SVG}text")]


def of_class(root: ET.Element, kind: str) -> list[ET.Element]:
    return [one for one in root.iter() if one.attrib.get("class") == kind]


def numbers(path: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", path)]


# -- names ---------------------------------------------------------------------------------------


def test_a_name_that_is_safe_is_kept() -> None:
    assert safe_names(["0", "orders-1", "a.b_c"]) == ("0", "orders-1", "a.b_c")


@pytest.mark.parametrize("word", ["../../etc/passwd", "a/b", "", ".", "..", "-rf", "ö" * 300, "\0"])
def test_no_name_leads_out_of_its_folder(word: str) -> None:
    (name,) = safe_names([word])

    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,80}", name)


def test_no_two_names_are_the_same_on_any_file_system() -> None:
    names = safe_names(["a/b", "a_b", "a?b", "A", "a", "a", "a", "\ud800"])

    assert len({name.casefold() for name in names}) == len(names)


# -- axes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length_ns", "told"),
    [(0, "0\u202fns"), (999, "999\u202fns"), (1_500_000, "1.5\u202fms"),
     (12_340_000_000, "12.3\u202fs"),
     (5_000_000_000_000, "5\u202f000\u202fs")],
)  # fmt: skip
def test_a_length_of_time_is_told_in_the_unit_that_fits(length_ns: int, told: str) -> None:
    assert told_time(length_ns) == told


def test_times_that_begin_near_zero_are_told_as_they_are() -> None:
    across = Scale.across(Axis(timed=True, low=2_000_000_000, high=9_000_000_000), 0, 1)

    assert (across.low, across.high) == (2.0, 9.0)
    assert across.title == "time of the history, s"


def test_times_of_a_clock_that_began_long_before_are_counted_from_the_first_event() -> None:
    across = Scale.across(Axis(timed=True, low=10**18, high=10**18 + 5_000_000), 0, 1)

    assert (across.low, across.high) == (0.0, 5.0)
    assert across.title.startswith("ms since the first event")


def test_a_history_without_times_has_an_axis_of_indices() -> None:
    across = Scale.across(Axis(timed=False, low=0, high=7), 0, 1)

    assert across.title == "index of the completion"


def test_an_axis_of_one_moment_has_a_width() -> None:
    across = Scale.across(Axis(timed=True, low=5, high=5), 0, 1)

    assert across.high > across.low
    assert Scale(low=0, high=2, begin=100, end=0).at(1) == 50


def test_pictures_bring_the_colours_of_the_report_along() -> None:
    colours = palette()

    assert "prefers-color-scheme: dark" in colours
    assert [f".b{n} {{" in colours for n in range(1, 10)] == [True] * 9
    assert "body" not in colours


# -- threads -------------------------------------------------------------------------------------


def life(process: int, first: int, last: int, *, ended: bool = False) -> Life:
    return Life(process=process, first=first, last=last, ended=ended)


def test_processes_that_replaced_others_are_one_thread_with_them() -> None:
    lives = [
        life(0, 0, 50), life(1, 1, 10, ended=True), life(3, 12, 30, ended=True), life(5, 31, 60),
    ]  # fmt: skip

    assert threads_of(lives) == 2


def test_processes_that_live_at_once_are_threads_of_their_own() -> None:
    assert threads_of([life(0, 0, 50), life(1, 1, 51), life(2, 2, 52)]) is None


def test_a_process_that_ended_known_was_not_replaced() -> None:
    assert threads_of([life(0, 0, 10), life(1, 12, 30)]) is None
    assert threads_of([]) is None


# -- what was not yet seen -----------------------------------------------------------------------


def test_layers_are_stacked_and_change_where_counts_do() -> None:
    root = drawn(unseen_picture(SERIES, AXIS))

    (lowest,) = of_class(root, "b1")[:1]
    (others,) = of_class(root, "others")[:1]
    track = next(one for one in root.iter() if one.attrib.get("class") == "track").attrib
    left, top, width, height = (float(track[n]) for n in ("x", "y", "width", "height"))
    # The scale ends at 4; the first layer is 4 high, then 1, and the second lies on it.
    bottom, of_one, middle = top + height, height / 4, left + width / 2
    assert numbers(lowest.attrib["d"])[:5] == [left, bottom, left, top, middle]
    assert f"H{num(middle)}V{num(bottom - of_one)}" in lowest.attrib["d"]
    assert f"H{num(middle)}V{num(bottom - 3 * of_one)}" in others.attrib["d"]
    assert "key a, at most 4, 1 at the end" in words(root)
    assert "10 other keys, 2 at the end" in words(root)


def test_the_drain_is_marked_from_the_last_send_on() -> None:
    root = drawn(unseen_picture(SERIES, AXIS))

    (band,) = of_class(root, "drain")
    track = next(one for one in root.iter() if one.attrib.get("class") == "track").attrib
    begin = float(track["x"]) + 0.8 * float(track["width"])
    assert numbers(band.attrib["d"])[0] == pytest.approx(begin, abs=0.1)
    assert "final polls: nothing is sent any more" in words(root)
    without = Axis(timed=True, low=0, high=10_000_000_000)
    assert not of_class(drawn(unseen_picture(SERIES, without)), "drain")


def test_where_nothing_was_ever_unseen_the_picture_says_so() -> None:
    assert any("had been seen" in one for one in words(drawn(unseen_picture(Unseen(), AXIS))))
    assert any("Nothing happened" in one for one in words(drawn(unseen_picture(Unseen(), None))))


# -- lags ----------------------------------------------------------------------------------------


def stretch(from_s: int, to_s: int, lag_s: int) -> Stretch:
    return Stretch(
        from_ns=from_s * 10**9, to_ns=to_s * 10**9, lag_ns=lag_s * 10**9, process=3, key="<k>", op=7
    )


def member(thread: int, *stretches: Stretch) -> MemberLag:
    return MemberLag(thread=thread, key=None, stretches=stretches)


def test_a_lag_rises_to_its_last_poll_on_the_scale_of_all_panels() -> None:
    lags = Lags(members=(member(3, stretch(2, 6, 5)), member(1)), count=2, replaced=False)
    root = drawn(lag_picture(THREAD, lags, AXIS))

    first = next(one for one in root.iter() if one.attrib.get("class") == "track").attrib
    left, top, width, height = (float(first[n]) for n in ("x", "y", "width", "height"))
    (shape,) = of_class(root, "lag")
    x0, base, y0, x1, y1, end = numbers(shape.attrib["d"])
    assert x0 == pytest.approx(left + 0.2 * width, abs=0.1)
    assert x1 == pytest.approx(left + 0.6 * width, abs=0.1)
    assert (base, end) == (top + height, top + height)
    # It was behind by 1 s already when it came there, and by 5 s when it polled last.
    assert y0 == pytest.approx(top + height * (1 - 1 / 5), abs=0.1)
    assert y1 == pytest.approx(top, abs=0.1)
    assert "process 3" in words(root)
    assert "worst 5\u202fs at 6\u202fs, key <k>" in words(root)
    assert "never behind" in words(root)


def test_members_that_have_no_panel_are_counted() -> None:
    lags = Lags(members=(member(1, stretch(0, 1, 1)),), count=30, replaced=True)
    told = words(drawn(lag_picture(THREAD, lags, AXIS)))

    assert "29 more are not shown: none of them was further behind." in told
    assert "thread 1" in told


def test_what_could_not_be_measured_is_said() -> None:
    assert any("no times" in one for one in words(drawn(lag_picture(KEY, None, AXIS))))


# -- orders --------------------------------------------------------------------------------------


def order(
    *cells: Cell, offsets: dict[int, int] | None = None, kind: str = "ok", key: str = "k"
) -> Order:
    return Order(
        key=key,
        counts={"duplicate": 1},
        suspects=(Suspect(value=5, anomalies=("duplicate",)),),
        offsets={0: 100, 1: 101, 9: 700} if offsets is None else offsets,
        rows=(OpRow(op=12, process=3, type=kind, f="txn", cells=cells),),
        all_offsets=40,
        all_rows=1,
    )


def cell(column: int | None, value: int, *, kind: str = "send", suspect: bool = False) -> Cell:
    return Cell(column=column, kind=kind, value=value, suspect=suspect)


def test_a_value_stands_at_its_offset_and_is_ringed_if_it_offends() -> None:
    root = drawn(
        order_picture(
            order(cell(0, 5, suspect=True), cell(1, 6, kind="poll"), cell(9, 5, suspect=True))
        )
    )  # fmt: skip

    told = words(root)
    assert {"12", "3", "txn", "100", "101", "700", "6"} <= set(told)
    assert told.count("5") == 2
    assert len(of_class(root, "ring")) == 2 + 1  # one explains itself
    assert "value 5 (offset 100, 700): duplicate" in told
    assert any(one.startswith("Shown are 3 of 40 offsets") for one in told)
    # Between 101 and 700 there are offsets that are not shown.
    assert len(of_class(root, "gap")) == 1


def test_a_value_whose_offset_nobody_knows_stands_in_a_column_of_its_own() -> None:
    told = words(drawn(order_picture(order(cell(None, 5, suspect=True), offsets={}))))

    assert "unknown" in told
    assert "value 5 (offset unknown): duplicate" in told


def test_long_values_leave_out_what_all_begin_with() -> None:
    cells = (cell(0, 10995116277760001), cell(1, 10995116277760442), cell(9, 10995116277769983))
    told = words(drawn(order_picture(order(*cells))))

    assert {"0001", "0442", "9983"} <= set(told)
    assert "Values in the picture are without their first digits, 1099511627776." in told


def test_several_values_of_one_op_at_one_offset_share_the_cell() -> None:
    told = words(drawn(order_picture(order(*(cell(0, value) for value in range(6))))))

    assert {"0", "1", "+4"} <= set(told)


@pytest.mark.parametrize("key", ["<script>", "a" * 500, "\x07\u202e", ""])
def test_foreign_keys_do_no_harm(key: str) -> None:
    drawn(order_picture(order(cell(0, 5, suspect=True), key=key)))
    layers = (Layer(key=key, counts=(1,), most=1),)
    drawn(unseen_picture(Unseen(moments=(0,), layers=layers, keys=1), AXIS))


# -- files ---------------------------------------------------------------------------------------


def verdict(path: str, *problems: Problem) -> HistoryVerdict:
    return HistoryVerdict(
        history=path,
        verdict=Verdict.UNKNOWN,
        reasons=("Because.",),
        anomalies={},
        described=Described(path=Path(path), problems=problems),
        checkers={},
        options=OpOptions(),
        timing_s={},
    )


def test_each_history_has_a_folder_and_a_page_with_all_its_pictures(tmp_path: Path) -> None:
    orders = Orders(orders=(order(cell(0, 5, suspect=True), key="a/b"),), keys=3)
    series = Series(axes=Axes(moments=AXIS, times=AXIS), unseen=SERIES, orders=orders)
    torn = verdict("c.jsonl", Problem(line=1, words="is torn"))
    prepare_folder(tmp_path / "plots")

    write_plots(
        tmp_path / "plots",
        {0: series, 1: Series()},
        [verdict("x/one.jsonl"), verdict("y/one.jsonl"), torn],
    )

    first, second = sorted(path for path in (tmp_path / "plots").iterdir() if path.is_dir())
    files = {str(path.relative_to(first)) for path in first.rglob("*") if path.is_file()}
    (of_key,) = {name for name in files if name.startswith("orders/")}
    pictures = {
        "unseen.svg", "realtime-lag-thread.svg", "realtime-lag-key.svg",
        "realtime-lag-thread-key.svg",
    }  # fmt: skip
    assert files == {"index.html", of_key, *pictures}
    page = (first / "index.html").read_text()
    assert all(f'src="{name}"' in page for name in {of_key, *pictures})
    assert "2 more keys with offences are not shown." in page
    assert "Because." in page
    assert {path.name for path in second.iterdir()} == {"index.html", *pictures}
    contents = (tmp_path / "plots" / "index.html").read_text()
    assert f'href="{first.name}/index.html"' in contents
    assert f'href="{second.name}/index.html"' in contents
    assert "cannot be judged" in contents
    assert "c/index.html" not in contents


def test_a_picture_of_an_earlier_call_does_not_stay(tmp_path: Path) -> None:
    orders = Orders(orders=(order(cell(0, 5, suspect=True)),), keys=1)
    axes = Axes(moments=AXIS, times=None)
    for found in (orders, Orders()):
        write_plots(tmp_path, {0: Series(axes=axes, orders=found)}, [verdict("one.jsonl")])

    assert not (tmp_path / "one" / "orders").exists()


def test_a_file_is_no_folder_for_plots(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.touch()

    with pytest.raises(UsageError, match=r"--plots: .*taken"):
        prepare_folder(taken)


def test_plots_of_run_folders_alone_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"report\.html"):
        judge_paths([tmp_path], subscribe=False, ww_deps=False, master=None, plots=tmp_path / "p")
