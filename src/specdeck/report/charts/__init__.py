"""Charts of the HTML pages as inline SVG: no viewBox, so that text keeps its size while the plot takes any width."""
