"""Two pictures of a comparison, each as SVG and PNG, kept small.

ratios: grouped bars of time beside libc's, with the 95 % interval, rows under their headings.
memory: peak memory against time, a point per row and a big one per allocator for the means.

Drawn with matplotlib, which may be missing, and takes its time to load: only draw asks for it.
"""
import contextlib
import importlib
import io

MISSING = "no pictures: python3-matplotlib is not installed"
FILES = {f"{name}.{kind}" for name in ("ratios", "memory") for kind in ("svg", "png")}
# Colours that are told apart also without red and green; libc is grey, HAKMEM stands out.
COLOURS = ["#0072b2", "#e69f00", "#56b4e9", "#cc79a7", "#f0e442", "#009e73"]
LIBC, HAKMEM = "#999999", "#d55e00"
MARKERS = "osD^vP"
PNG_DPI = 75
BAR_INCHES, PANEL_INCHES, TOP_INCHES, WIDTH_INCHES = 0.11, 0.55, 0.5, 9
WIDEST = 2  # times libc's time; what is slower is cut off
TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20)


class NoPictures(Exception):
    """Says why."""


def _styles(outcome):
    """label -> (colour, marker)"""
    rest = iter(COLOURS * 10)
    styles = {}
    for index, one in enumerate(outcome.allocators):
        plain = not one.settings
        colour = LIBC if one.kind == "libc" and plain else \
            HAKMEM if one.kind == "hakmem" and plain else next(rest)
        styles[one.label] = colour, MARKERS[index % len(MARKERS)]
    return styles


def _load(name):
    return importlib.import_module(f"matplotlib.{name}" if name else "matplotlib")


def _log_ticks(axis, low, high):
    ticker = _load("ticker")
    axis.set_ticks([tick for tick in TICKS if low <= tick <= high])
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(ticker.NullFormatter())


def _panel(axes, summary, rows, styles, limit):
    """Bars of some rows, the first row at the top; a bar beyond the limit ends in its number."""
    labels = [label for label in styles
              if label != "libc" and any(summary.cell(row, label) for row in rows)]
    height = 0.84 / max(len(labels), 1)
    for place, label in enumerate(labels):
        found = [(index + (place - (len(labels) - 1) / 2) * height,
                  *summary.cell(row, label).to_libc["time"])
                 for index, row in enumerate(rows) if summary.cell(row, label)]
        axes.barh([y for y, _, _ in found], [value for _, value, _ in found], height,
                  color=styles[label][0], label=label,
                  xerr=[half if half == half else 0 for _, _, half in found],
                  error_kw={"elinewidth": 0.7, "ecolor": "#333333"})
        for y, value, _ in found:
            if value > limit:
                axes.text(limit, y, f"{value:.1f} ", fontsize=5, ha="right", va="center")
    axes.axvline(1, color="#333333", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [row.name for row in rows], fontsize=7)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlim(0, limit)
    axes.grid(axis="x", which="major", linewidth=0.4, color="#cccccc")
    axes.set_axisbelow(True)


def ratios(summary):
    """A figure, or None if there is nothing to draw: libc is the measure."""
    styles = _styles(summary.outcome)
    sections = [(heading, [row for row in rows
                           if "time" in row.compared and summary.cell(row, "libc")])
                for heading, rows in summary.sections()]
    sections = [(heading, rows) for heading, rows in sections if rows]
    values = [cell.to_libc["time"][0] for (_, label), cell in summary.cells.items()
              if cell.to_libc and label != "libc"]
    if not sections or not values:
        return None
    per_row = max(len(styles) - 1, 2) * BAR_INCHES + 0.05
    heights = [len(rows) * per_row + PANEL_INCHES for _, rows in sections]
    tall = sum(heights) + TOP_INCHES
    figure, panels = _load("pyplot").subplots(
        len(sections), 1, figsize=(WIDTH_INCHES, tall), squeeze=False,
        gridspec_kw={"height_ratios": heights})
    limit = max(1.1, min(max(values) * 1.1, WIDEST))
    handles = {}
    for axes, (heading, rows) in zip(panels[:, 0], sections):
        _panel(axes, summary, rows, styles, limit)
        axes.set_title(heading, fontsize=8, loc="left")
        handles.update({label: handle for handle, label in zip(*axes.get_legend_handles_labels())})
    figure.text(0.02, 1 - 0.08 / tall, "Time, libc = 1; shorter is faster; 95 % intervals",
                fontsize=9, va="top")
    figure.legend(handles.values(), handles.keys(), loc="upper left", ncol=len(handles),
                  fontsize=8, frameon=False, bbox_to_anchor=(0.01, 1 - 0.22 / tall))
    figure.tight_layout(rect=(0, 0, 1, 1 - TOP_INCHES / tall))
    return figure


def memory(summary):
    """A figure, or None if no row compares both."""
    rows = [row for row in summary.outcome.rows
            if {"time", "memory"} <= set(row.compared) and summary.cell(row, "libc")]
    if not rows:
        return None
    figure, axes = _load("pyplot").subplots(figsize=(WIDTH_INCHES * 0.75, 5))
    means = summary.means()
    spans = {"time": [0.5, 2.2], "memory": [0.5, 2.2]}
    for label, (colour, marker) in _styles(summary.outcome).items():
        if label not in means:
            continue
        ratios_ = [summary.cell(row, label).to_libc for row in rows]
        points = [(one["time"][0], one["memory"][0]) for one in ratios_]
        axes.scatter(*zip(*points), s=14, color=colour, marker=marker, alpha=0.6, linewidths=0)
        mean = [summary.geometric_mean(label, what, rows) for what in ("time", "memory")]
        axes.scatter(*mean, s=110, color=colour, marker=marker, edgecolors="black", linewidths=0.8,
                     label=f"{label}: {mean[0]:.2f}, {mean[1]:.2f}", zorder=3)
        for what, values in zip(("time", "memory"), zip(*points)):
            spans[what] += values
    for what, axis, scale, limit in (("time", axes.xaxis, axes.set_xscale, axes.set_xlim),
                                     ("memory", axes.yaxis, axes.set_yscale, axes.set_ylim)):
        low, high = min(spans[what]) * 0.9, max(spans[what]) * 1.1
        scale("log")
        limit(low, high)
        _log_ticks(axis, low, high)
    axes.axvline(1, color="#999999", linewidth=0.6)
    axes.axhline(1, color="#999999", linewidth=0.6)
    axes.set_xlabel("time, libc = 1", fontsize=8)
    axes.set_ylabel("peak memory, libc = 1", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.set_title("Rows (small) and geometric means (big: time, memory); left and below is better",
                   fontsize=9, loc="left")
    axes.legend(fontsize=8, loc="best")
    figure.tight_layout()
    return figure


def _bytes(figure, kind):
    out = io.BytesIO()
    with _load("").rc_context({"svg.fonttype": "none", "svg.hashsalt": "hakmem",
                                "font.family": "sans-serif"}):
        figure.savefig(out, format=kind, dpi=PNG_DPI,
                       metadata={"Date": None} if kind == "svg" else {"Software": None})
    return out.getvalue()


@contextlib.contextmanager
def _explained():
    try:
        yield
    except ImportError:
        raise NoPictures(MISSING) from None
    except Exception as problem:  # pylint: disable=broad-except # of a library that is not ours
        words = (str(problem).splitlines() or [""])[0]
        raise NoPictures(f"no pictures: {type(problem).__name__}: {words}") from None


def prepare():
    """Loads matplotlib, or raises NoPictures."""
    with _explained():
        _load("").rcdefaults()  # whatever the user has set for pictures of his own
        _load("").use("agg")


def draw(summary):
    """{file name: bytes} of all pictures there is something to show in. Raises NoPictures."""
    prepare()
    files = {}
    with _explained():
        for name, picture in ("ratios", ratios), ("memory", memory):
            figure = picture(summary)
            if figure is not None:
                for kind in "svg", "png":
                    files[f"{name}.{kind}"] = _bytes(figure, kind)
                _load("pyplot").close(figure)
    return files
