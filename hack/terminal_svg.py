#!/usr/bin/env python3
"""Draws what a command printed in colour, as SVG.

Usage: COMMAND --color always | hack/terminal_svg.py "$ COMMAND" > docs/images/plan.svg
"""

import re
import sys
from html import escape

CHAR, LINE, MARGIN, SIZE = 7.8, 18, 16, 13
GROUND, TEXT, DIM = "#1b1f27", "#d8dee9", "#8b93a3"
COLOURS = {30: "#4c566a", 31: "#e06c75", 32: "#98c379", 33: "#e5c07b", 34: "#61afef", 35: "#c678dd", 36: "#56b6c2"}
ESCAPE = re.compile(r"\x1b\[([0-9;]*)m")


def styled(line):
    """The pieces of a line with the SVG attributes of each."""
    codes, start = set(), 0
    for found in ESCAPE.finditer(line):
        yield line[start : found.start()], codes
        codes = set(codes)
        for code in (int(text or 0) for text in found[1].split(";")):
            codes = set() if code == 0 else codes - set(COLOURS) | {code} if code in COLOURS else codes | {code}
        start = found.end()
    yield line[start:], codes


def attributes(codes):
    colour = next((COLOURS[code] for code in sorted(codes) if code in COLOURS), DIM if 2 in codes else None)
    out = f' fill="{colour}"' if colour else ""
    return out + (' font-weight="bold"' if 1 in codes else "")


def main():
    lines = [*sys.argv[1:], *sys.stdin.read().rstrip("\n").split("\n")]
    width = max(len(ESCAPE.sub("", line)) for line in lines) * CHAR + 2 * MARGIN
    height = len(lines) * LINE + 2 * MARGIN
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}">\n'
        f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>\n'
        f'<g font-family="ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{SIZE}" fill="{TEXT}" '
        'xml:space="preserve">'
    )
    for row, line in enumerate(lines):
        column, pieces = 0, []
        for text, codes in styled(line):
            if text.strip():
                # Where a piece begins and how long it is holds whatever font there is.
                x, length = MARGIN + column * CHAR, len(text) * CHAR
                place = f'x="{x:.1f}" textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs"'
                # Browsers take several spaces for one.
                shown = escape(text).replace(" ", "\u00a0")
                pieces.append(f"<tspan {place}{attributes(codes)}>{shown}</tspan>")
            column += len(text)
        if pieces:
            print(f'<text y="{MARGIN + SIZE + row * LINE}">{"".join(pieces)}</text>')
    print("</g>\n</svg>")


if __name__ == "__main__":
    main()
