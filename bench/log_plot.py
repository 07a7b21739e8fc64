"""log_plot.py: a plot with two logarithmic axes as SVG, line by line. For plot_breakeven.py and plot_pause.py."""

import math


class LogPlot:
    """`times` and what is drawn share the vertical axis, which ends at whole powers of ten; `xs` are both ends of the other."""

    def __init__(self, size, margins, font_size, xs, times):
        self.width, self.height = size
        self.left, self.right, self.top, self.bottom = margins
        self.font_size = font_size
        self.low_x, self.low_y = math.log10(xs[0]), math.floor(math.log10(min(times)))
        self.high_y = math.ceil(math.log10(max(times)))
        self.scale_x = (self.width - self.left - self.right) / (math.log10(xs[1]) - self.low_x)
        self.scale_y = (self.height - self.top - self.bottom) / (self.high_y - self.low_y)
        self.lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}"'
            f' font-family="sans-serif" font-size="{font_size}">',
            f'<rect width="{self.width}" height="{self.height}" fill="white"/>',
        ]

    def x(self, value):
        return self.left + (math.log10(value) - self.low_x) * self.scale_x

    def y(self, value):
        return self.height - self.bottom - (math.log10(value) - self.low_y) * self.scale_y

    def add(self, line):
        self.lines.append(line)

    def axes(self, title, x_name, y_name, x_ticks):
        floor, end = self.height - self.bottom, self.width - self.right
        self.add(f'<text x="{self.left}" y="22" font-size="14">{title}</text>')
        self.add(f'<text x="{(self.left + end) / 2}" y="{self.height - 18}" text-anchor="middle">{x_name}</text>')
        middle = (self.top + floor) / 2
        self.add(f'<text transform="translate(20 {middle}) rotate(-90)" text-anchor="middle">{y_name}</text>')
        for tick in x_ticks:
            at = self.x(tick)
            self.add(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{self.top}" y2="{floor}" stroke="#ddd"/>')
            below = floor + int(1.5 * self.font_size)
            self.add(f'<text x="{at:.1f}" y="{below}" text-anchor="middle">{tick:g}</text>')
        for power in range(self.low_y, self.high_y + 1):
            at = self.y(10.0**power)
            self.add(f'<line x1="{self.left}" x2="{end}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
            self.add(f'<text x="{self.left - 8}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')

    def level(self, time, text):
        """A dashed line across, for what does not depend on the other axis."""
        at, end = self.y(time), self.width - self.right
        self.add(f'<line x1="{self.left}" x2="{end}" y1="{at:.1f}" y2="{at:.1f}" stroke="#888" stroke-dasharray="5 4"/>')
        self.add(f'<text x="{self.left + 6}" y="{at - 5:.1f}" fill="#555">{text}</text>')

    def line(self, points, colour):
        text = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self.add(f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="2"/>')

    def point(self, x, y, colour):
        self.add(f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="3.5" fill="{colour}"/>')

    def text(self):
        return "\n".join([*self.lines, "</svg>", ""])
