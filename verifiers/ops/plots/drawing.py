"""Drawing the plots of op histories beside their verification, which it never disturbs.

Each history has a folder with its pictures and a page of them all.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import jinja2

from harness.core.run_dir import write_atomically
from verifiers.checking.crashes import Crashes
from verifiers.ops.checking import OpChecked
from verifiers.ops.judgement import HistoryVerdict
from verifiers.ops.plots.lag_picture import TITLES, lag_picture
from verifiers.ops.plots.names import safe_names
from verifiers.ops.plots.order_picture import order_picture
from verifiers.ops.plots.plane import palette
from verifiers.ops.plots.series import Series, series_of
from verifiers.ops.plots.unseen_picture import unseen_picture
from verifiers.ops.reading import OpHistories
from verifiers.report import units
from verifiers.report.templates import page_template

_MOST_REASONS = 8


def draw_plots(
    folder: Path,
    histories: OpHistories,
    checked: OpChecked,
    verdicts: Sequence[HistoryVerdict],
    tell: Callable[[str], None],
) -> None:
    """Draw some histories, each into a folder of its name.

    If that fails, a sentence says so and names the file of the traceback: plots have no part in a
    verdict.

    Args:
        folder: in which the plots are written.
        histories: those that can be read still.
        checked: what was found in them.
        verdicts: on them, in their order.
        tell: called with each sentence about what was drawn, or why nothing was.
    """
    tell("Gathering what the plots show.")
    try:
        write_plots(folder, series_of(histories, checked), verdicts)
    except Exception as error:  # noqa: BLE001  (whatever it is, the verdicts must be told)
        crashes = Crashes()
        crashes.note("plots", error, kind="drawing of", called="plots")
        tell(crashes.sentences["plots"])
    else:
        tell(f"Plots: {folder / 'index.html'}")


def write_plots(
    folder: Path, series: Mapping[int, Series], verdicts: Sequence[HistoryVerdict]
) -> None:
    """Write the pictures of some histories, a page for each, and one that leads to them.

    Args:
        folder: of all of them; what an earlier call wrote for the same history is replaced.
        series: by position of the history; one that cannot be judged is not there.
        verdicts: of all histories, in their order.

    Raises:
        OSError: a file cannot be written.
    """
    template = page_template(Path(__file__).with_name("page.html.j2"))
    names = safe_names([verdict.described.path.stem for verdict in verdicts])
    histories = []
    for run, (name, verdict) in enumerate(zip(names, verdicts, strict=True)):
        if run in series:
            _write_history(folder / name, series[run], verdict, template)
        histories.append(
            {
                "history": verdict.history,
                "folder": name if run in series else "",
                "verdict": verdict.verdict.name,
                "found": ", ".join(sorted(verdict.anomalies))
                or ("cannot be judged" if verdict.malformed else "nothing"),
            }
        )
    page = template.render(title="Plots of op histories", style=palette(), histories=histories)
    write_atomically(folder / "index.html", page)


def _write_history(
    folder: Path, series: Series, verdict: HistoryVerdict, template: jinja2.Template
) -> None:
    orders = folder / "orders"
    orders.mkdir(parents=True, exist_ok=True)
    for stale in orders.glob("*.svg"):
        # A key that offended once need not offend now.
        stale.unlink()
    moments = None if series.axes is None else series.axes.moments
    times = None if series.axes is None else series.axes.times
    drawn = {"unseen.svg": ("sent and not yet seen", unseen_picture(series.unseen, moments))}
    for grouping, title in TITLES.items():
        picture = lag_picture(grouping, series.lags.get(grouping), times)
        drawn[f"realtime-lag-{grouping}.svg"] = (title, picture)
    keys = [order.key for order in series.orders.orders]
    of_keys = {
        f"orders/{name}.svg": (f"order of key {order.key}", order_picture(order))
        for name, order in zip(safe_names(keys), series.orders.orders, strict=True)
    }
    for file, (_, content) in (drawn | of_keys).items():
        write_atomically(folder / file, content)
    if not of_keys:
        orders.rmdir()
    more = series.orders.keys - len(keys)
    page = template.render(
        title=f"{verdict.verdict.name} · {verdict.history}",
        style=palette(),
        verdict=verdict.verdict.name,
        history=verdict.history,
        reasons=verdict.reasons[:_MOST_REASONS],
        pictures=drawn,
        orders=of_keys,
        more=f"{units.counted(more, 'more key')} with offences are not shown." if more else "",
    )
    write_atomically(folder / "index.html", page)
