#!/usr/bin/python3
"""Draws the trace of a GPU (bench/gpu_trace): a lane for each stream, kernels coloured by kind.

    bench/gpu_timeline.py TRACE -o FILE.svg [--window=MS] [--from=MS] [--top=N]

Prints how busy each stream is, how much of the work of links and uploads runs while a solver's stream works, and
the work that takes the most time. These figures are of the whole trace, or of what follows --from; the picture shows
a window of it (20 ms, by default in the middle).
"""
import argparse
import collections
import json
import re
import sys
from xml.sax.saxutils import escape

# The first that fits a name, in any case.
KINDS = [("exchange", r"ExchangeKernel"),
         ("update", r"UpdateOfRows|SquaresOfRows|SumOfParts|OuterStep|TakeDifferences|Compensate|multi_tensor"),
         ("convolution", r"conv|fprop|[dw]grad|winograd|fft"),
         ("gemm", r"gemm|gemv|splitk|cutlass|cublas|nvjet")]
COLOURS = {"convolution": "#3465a4", "gemm": "#4e9a06", "exchange": "#cc0000", "copy": "#f57900", "update": "#75507b",
           "other": "#8a8d85"}
LANE, GAP, LEFT, RIGHT, WIDTH = 26, 10, 150, 60, 1200


class Span:
    def __init__(self, event):
        self.lane = (event["pid"], event["tid"])
        self.begin = event["ts"]
        self.end = event["ts"] + event["dur"]
        self.name = event["name"]
        self.bytes = event.get("args", {}).get("bytes", 0)
        self.kind = "copy" if event["cat"] in ("copy", "fill") else kind_of(self.name)


def kind_of(name):
    return next((kind for kind, pattern in KINDS if re.search(pattern, name, re.IGNORECASE)), "other")


def read(path):
    """The spans of a trace, and the counts at its end: None if it was cut."""
    spans, end = [], None
    with open(path) as file:
        lines = file.read().split("\n")
    for number, line in enumerate(lines, 1):
        text = line.strip().rstrip(",")
        if text in ("", "[", "]"):
            continue
        try:
            event = json.loads(text)
            if event["ph"] == "X":
                spans.append(Span(event))
            elif event["name"] == "end":
                end = event["args"]
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):  # the line that was being written when the process was killed
                continue
            sys.exit(f"{path}:{number}: {text[:60]!r}: expected a trace event on a line ({error})")
    return sorted(spans, key=lambda span: span.begin), end


def role_of(spans):
    """What a stream is for, by what runs on it."""
    kinds = collections.Counter(span.kind for span in spans)
    if kinds["exchange"]:
        return "link"
    if set(kinds) == {"copy"}:
        return "uploads" if all("to device" in span.name for span in spans) else "copies"
    return "solver"


def union(spans):
    """The times at which one of the spans runs, as disjoint intervals in order."""
    merged = []
    for span in sorted(spans, key=lambda span: span.begin):
        if merged and span.begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], span.end)
        else:
            merged.append([span.begin, span.end])
    return merged


def length(intervals):
    return sum(end - begin for begin, end in intervals)


def overlap(a, b):
    total, i, j = 0, 0, 0
    while i < len(a) and j < len(b):
        total += max(0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return total


def percent(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def report(path, spans, end, lanes, roles, top):
    first, last = min(span.begin for span in spans), max(span.end for span in spans)
    cut = "; cut off" if end is None else ""
    missing = (end or {}).get("left_out", 0) + (end or {}).get("lost", 0)
    print(f"{path}: {len(spans)} spans in {(last - first) / 1000:.3f} ms"
          f"{f', {missing} more were left out' if missing else ''}{cut}")
    solver = union([span for span in spans if roles[span.lane] == "solver"])
    print("| stream | busy | of that beside a solver |\n|---|---|---|")
    for lane in lanes:
        busy = union([span for span in spans if span.lane == lane])
        beside = "" if roles[lane] == "solver" else percent(overlap(busy, solver), length(busy))
        print(f"| {label(lane, roles)} | {percent(length(busy), last - first)} | {beside} |")
    links = union([span for span in spans if roles[span.lane] == "link"])
    print(f"overlap of links with solvers: {percent(overlap(links, solver), length(links))}")
    times = collections.defaultdict(list)
    for span in spans:
        times[(span.kind, span.name)].append(span.end - span.begin)
    print("| kind | name | count | ms | mean us |\n|---|---|---|---|---|")
    for (kind, name), each in sorted(times.items(), key=lambda item: -sum(item[1]))[:top]:
        print(f"| {kind} | {name} | {len(each)} | {sum(each) / 1000:.3f} | {sum(each) / len(each):.2f} |")


def label(lane, roles):
    device = f"GPU {lane[0]}, " if any(other[0] for other in roles) else ""
    return f"{device}{roles[lane]} {lane[1]}"


def rectangles(spans, begin, scale):
    """The spans of a lane as (x, width, colour, title). Spans of a kind that are closer than half a pixel are one."""
    drawn = []
    for span in spans:
        x, right = (span.begin - begin) * scale, (span.end - begin) * scale
        if drawn and drawn[-1][2] == span.kind and x - drawn[-1][1] < 0.5 and right - x < 0.5:
            drawn[-1][1] = max(drawn[-1][1], right)
            drawn[-1][4] += 1
        else:
            drawn.append([x, right, span.kind, span, 1])
    for x, right, kind, span, count in drawn:
        title = (f"{count} spans, {kind}" if count > 1 else
                 f"{span.name}, {span.end - span.begin:.2f} us{f', {span.bytes} bytes' if span.bytes else ''}")
        yield max(x, 0), max(right - max(x, 0), 0.4), COLOURS[kind], title


def draw(spans, lanes, roles, begin, end, title):
    scale = (WIDTH - LEFT - RIGHT) / (end - begin)
    height = 60 + len(lanes) * (LANE + GAP) + 40
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
           f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
           f'<text x="{LEFT}" y="18" font-size="14">{escape(title)}</text>']
    x = LEFT
    for kind, colour in COLOURS.items():
        out.append(f'<rect x="{x}" y="28" width="12" height="12" fill="{colour}"/>'
                   f'<text x="{x + 16}" y="38">{kind}</text>')
        x += 36 + 7 * len(kind)
    bottom = 60 + len(lanes) * (LANE + GAP)
    step = step_of((end - begin) / 1000)
    tick = int(begin / 1000 / step) + 1
    while tick * step * 1000 <= end:
        x = LEFT + (tick * step * 1000 - begin) * scale
        out.append(f'<line x1="{x:.1f}" y1="52" x2="{x:.1f}" y2="{bottom}" stroke="#d3d7cf"/>'
                   f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{tick * step:g} ms</text>')
        tick += 1
    for i, lane in enumerate(lanes):
        y = 56 + i * (LANE + GAP)
        shown = [span for span in spans if span.lane == lane and span.end > begin and span.begin < end]
        busy = sum(min(b, end) - max(a, begin) for a, b in union(shown))
        out.append(f'<text x="{LEFT - 8}" y="{y + 17}" text-anchor="end">{label(lane, roles)}</text>'
                   f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - RIGHT}" height="{LANE}" fill="#eeeeec" '
                   f'opacity="0.6"/>'
                   f'<text x="{WIDTH - RIGHT + 6}" y="{y + 17}">{100 * busy / (end - begin):.0f} %</text>')
        limit = WIDTH - LEFT - RIGHT
        for x, width, colour, text in rectangles(shown, begin, scale):
            out.append(f'<rect x="{LEFT + x:.2f}" y="{y}" width="{min(width, limit - x):.2f}" height="{LANE}" '
                       f'fill="{colour}"><title>{escape(text)}</title></rect>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def step_of(milliseconds):
    """A round step that divides the time into at most 10 parts."""
    step = 1e-4
    while milliseconds / step > 10:
        step *= 2 if f"{step:e}"[0] in "15" else 2.5
    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("-o", metavar="FILE.svg", dest="picture", help="the picture; without it, only the figures")
    parser.add_argument("--window", type=float, default=20, metavar="MS")
    parser.add_argument("--from", type=float, dest="start", metavar="MS")
    parser.add_argument("--top", type=int, default=12, metavar="N")
    flags = parser.parse_args()
    try:
        spans, end = read(flags.trace)
    except OSError as error:
        sys.exit(f"{flags.trace}: {error.strerror}: expected a trace that libmillrace_trace.so has written")
    if flags.start is not None:
        spans = [span for span in spans if span.begin >= flags.start * 1000]
    if not spans:
        sys.exit(f"{flags.trace}: no work of a GPU in it, expected some")
    by_lane = collections.defaultdict(list)
    for span in spans:
        by_lane[span.lane].append(span)
    roles = {lane: role_of(each) for lane, each in by_lane.items()}
    order = ["solver", "link", "uploads", "copies"]
    lanes = sorted(by_lane, key=lambda lane: (lane[0], order.index(roles[lane]), lane[1]))
    report(flags.trace, spans, end, lanes, roles, flags.top)
    if not flags.picture:
        return
    first, last = spans[0].begin, max(span.end for span in spans)
    window = min(flags.window * 1000, last - first) or 1
    begin = first if flags.start is not None else first + (last - first - window) / 2
    with open(flags.picture, "w") as file:
        file.write(draw(spans, lanes, roles, begin, begin + window, f"{flags.trace}, {window / 1000:g} ms"))


if __name__ == "__main__":
    main()
