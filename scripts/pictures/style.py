"""What both pictures share: colours for light and dark, and the card they are drawn on.

A picture in a README cannot see the page it is on. It asks the reader's system for the theme and
brings its own ground, so that it can be read either way. The colours are those of the page of
`tandem serve`.
"""

from xml.sax.saxutils import escape

STYLE = """
  .ground { fill: #faf9f6; stroke: #e2dfd8 }
  .ink { fill: #1c2024 }
  .muted { fill: #5b626b }
  .rule { stroke: #d4d0c7 }
  .edge { fill: #2f63bd } .edge-line { stroke: #2f63bd }
  .cloud { fill: #9a4a08 } .cloud-line { stroke: #c8640f } .tint { fill: #ffe3c4 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #14171b; stroke: #31373f }
    .ink { fill: #e9e7e2 }
    .muted { fill: #a4abb5 }
    .rule { stroke: #3c434d }
    .edge { fill: #8ab2f7 } .edge-line { stroke: #7ba8f5 }
    .cloud { fill: #f7b679 } .cloud-line { stroke: #f2a35c } .tint { fill: #543413 }
  }
"""


def picture(width, height, title, description, style, marks):
    """The whole file; `title` and `description` are for those who cannot see it."""
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" \
height="{height}" role="img" aria-labelledby="title description">
<title id="title">{escape(title)}</title>
<desc id="description">{escape(description)}</desc>
<style>{STYLE}{style}</style>
<rect class="ground" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10"/>
{chr(10).join(marks)}
</svg>
"""
