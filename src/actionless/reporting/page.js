"use strict";
const root = document.documentElement;
const button = document.getElementById("theme");
const system = matchMedia("(prefers-color-scheme: dark)");
const touch = matchMedia("(pointer: coarse)").matches;
const charts = JSON.parse(document.getElementById("charts").textContent);
const drawn = [];

function setTheme(theme) {
  root.dataset.theme = theme;
  button.textContent = theme === "dark" ? "Light" : "Dark";
  button.setAttribute("aria-label", `Switch to ${theme === "dark" ? "light" : "dark"} colours`);
  for (const chart of drawn) Plotly.relayout(chart, themed());
}

function themed() {
  const style = getComputedStyle(root);
  const of = (name) => style.getPropertyValue(name).trim();
  return {
    "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "font.color": of("--soft"),
    "xaxis.gridcolor": of("--line"), "yaxis.gridcolor": of("--line"),
    "xaxis.zerolinecolor": of("--line"), "yaxis.zerolinecolor": of("--line"),
    "xaxis.linecolor": of("--line"), "yaxis.linecolor": of("--line"),
    "hoverlabel.bgcolor": of("--card"), "hoverlabel.bordercolor": of("--line"), "hoverlabel.font.color": of("--text"),
    "modebar.bgcolor": "rgba(0,0,0,0)", "modebar.color": of("--soft"), "modebar.activecolor": of("--accent"),
  };
}

function setAt(tree, [first, ...rest], value) {
  if (rest.length) setAt((tree[first] ??= {}), rest, value);
  else tree[first] = value;
}

// Compressed, the library is three megabytes smaller.
async function loadPlotly() {
  const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (c) => c.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(unpacked).text();
  document.head.append(script);
}

async function draw() {
  await loadPlotly();
  const config = {
    responsive: true, displaylogo: false, displayModeBar: touch ? true : "hover",
    // Listed one by one, because the default buttons include one that uploads the chart.
    modeBarButtons: [["toImage", ...(touch ? [] : ["zoom2d", "pan2d"]), "zoomIn2d", "zoomOut2d", "resetScale2d"]],
  };
  for (const [id, figure] of Object.entries(charts)) {
    const chart = document.getElementById(id);
    for (const [path, value] of Object.entries(themed())) setAt(figure.layout, path.split("."), value);
    // On a touch screen, dragging scrolls the page; the buttons zoom.
    figure.layout.dragmode = touch ? false : "zoom";
    await Plotly.newPlot(chart, figure.data, figure.layout, config);
    drawn.push(chart);
    await new Promise((resolve) => setTimeout(resolve)); // keeps the page responsive between two charts
  }
  root.dataset.drawn = drawn.length;
}

setTheme(system.matches ? "dark" : "light");
system.addEventListener("change", () => setTheme(system.matches ? "dark" : "light"));
button.addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));
if (typeof DecompressionStream === "undefined") {
  for (const chart of document.querySelectorAll(".chart")) chart.textContent = "Charts need a browser of 2023 or newer.";
} else {
  draw();
}
