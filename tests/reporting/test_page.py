import base64
import gzip
import json
from html.parser import HTMLParser

import pytest
from hand_made_runs import alone, guided, pretrained, tuned
from plotly.offline import get_plotlyjs

from actionless.reporting.charts import PALETTE
from actionless.reporting.report import report


class Page(HTMLParser):
    """What a browser would make of the file: elements, texts by element, the embedded data."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self._open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._open.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        if self._open:
            self.texts.append((*self._open[-1], data))

    def inside(self, identity):
        return "".join(data for _, attributes, data in self.texts if attributes.get("id") == identity)

    def all(self, tag):
        return [data for name, _, data in self.texts if name == tag]

    @property
    def charts(self):
        return json.loads(self.inside("charts"))

    @property
    def places(self):
        return [attributes["id"] for _, attributes in self.elements if attributes.get("class") == "chart"]


@pytest.fixture
def page_of(tmp_path):
    def write(*runs):
        return Page(report(runs, tmp_path / "page.html", overwrite=True).read_text("utf-8"))

    return write


def test_every_metric_has_its_chart_and_every_chart_its_place(tmp_path, page_of):
    page = page_of(guided(tmp_path / "a", 1.0, 2.0), pretrained(tmp_path / "b", 0.5))
    train = ["return", "episode-return", "guided-share", "reward", "idm-loss", "realised"]
    train += ["realised-td3-guided-by-switch", "missed", "loss", "q-mean"]
    expected = [f"chart-0-{key}" for key in train] + ["chart-1-accuracy", "chart-1-loss"]
    assert list(page.charts) == page.places == expected


def test_what_was_not_measured_leaves_its_chart_out(tmp_path, page_of):
    assert list(page_of(alone(tmp_path / "a", 1.0, 2.0)).charts) == ["chart-0-return"]


def test_mean_band_and_seeds_are_drawn_and_toggle_together(tmp_path, page_of):
    page = page_of(alone(tmp_path / "a", 1.0, 4.0), alone(tmp_path / "b", 3.0, 4.0, seed=1))
    low, high, first, second, mean = page.charts["chart-0-return"]["data"]
    assert (low["y"], high["y"], high["fill"]) == ([1.0, 4.0], [3.0, 4.0], "tonexty")
    assert (first["y"], second["y"]) == ([1.0, 4.0], [3.0, 4.0])
    assert (mean["x"], mean["y"], mean["customdata"]) == ([100, 200], [2.0, 4.0], [1.0, 0.0])
    assert mean["name"] == "td3 (2 seeds)"
    assert {trace["legendgroup"] for trace in (low, high, first, second, mean)} == {"td3"}
    assert [trace["showlegend"] for trace in (low, high, first, second, mean)] == [False] * 4 + [True]


def test_one_seed_has_no_band_but_a_note(tmp_path, page_of):
    page = page_of(alone(tmp_path / "a", 1.0, 4.0))
    (line,) = page.charts["chart-0-return"]["data"]
    assert line["y"] == [1.0, 4.0]
    assert "Only one seed, so no interval: Hopper-v5: td3." in page.all("li")


def test_seeds_that_share_no_step_are_drawn_without_a_mean(tmp_path, page_of):
    runs = [alone(tmp_path / "a", 1.0), alone(tmp_path / "b", 2.0, seed=1)]
    (runs[1] / "metrics.jsonl").write_text('{"step": 300, "eval/return": 2.0}\n')
    first, second = page_of(*runs).charts["chart-0-return"]["data"]
    assert (second["name"], first["showlegend"], second["showlegend"]) == ("td3 (2 seeds)", False, True)
    assert (first["y"], first["mode"]) == ([1.0], "markers")


def test_an_agent_and_a_method_of_the_same_name_take_no_colour_from_their_neighbours(tmp_path, page_of):
    agents = [alone(tmp_path / agent, 1.0, agent=agent) for agent in ("decqn", "td3")]
    methods = [pretrained(tmp_path / f"by {method}", 0.5, method=method) for method in ("bc-delta", "decqn")]
    charts = page_of(*agents, *methods).charts
    drawn = {key: [line["line"]["color"] for line in charts[key]["data"]] for key in ("chart-0-return", "chart-1-loss")}
    assert drawn == {"chart-0-return": list(PALETTE[:2]), "chart-1-loss": list(PALETTE[:2])}


def test_realised_deltas_are_a_map_of_variables(tmp_path, page_of):
    page = page_of(guided(tmp_path / "a", 1.0, 2.0))
    (trace,) = page.charts["chart-0-realised-td3-guided-by-switch"]["data"]
    assert trace["y"] == ["height", "speed"]
    assert trace["z"] == [[0.25, 0.25], [0.75, 0.75]]


def test_both_terms_of_the_inverse_dynamics_model_are_told_apart(tmp_path, page_of):
    lines = page_of(guided(tmp_path / "a", 1.0, 2.0)).charts["chart-0-idm-loss"]["data"]
    assert [(line["name"], line["line"]["dash"]) for line in lines] == [
        ("td3 guided by switch: seen online (1 seed)", "solid"),
        ("td3 guided by switch: on the log (1 seed)", "dash"),
    ]


def test_unfinished_runs_and_mixed_versions_are_said(tmp_path, page_of):
    run, other = alone(tmp_path / "a", 1.0, finished=False), alone(tmp_path / "b", 1.0, seed=1)
    manifest = json.loads((other / "run.json").read_text())
    manifest["versions"]["actionless"] = "0.2.0"
    (other / "run.json").write_text(json.dumps(manifest))
    notes = page_of(run, other).all("li")
    assert f"{run} is unfinished: shown up to step 100 of 300." in notes
    assert "The runs were made with different versions: actionless 0.1.0, 0.2.0." in notes


def test_agents_that_began_with_a_log_are_drawn_among_the_others_from_their_first_step_on(tmp_path, page_of):
    page = page_of(
        tuned(tmp_path / "iql", 1.0, 3.0, 4.0),
        tuned(tmp_path / "awac", 2.0, agent="awac", finished=False),
        alone(tmp_path / "td3", 1.0),
    )
    lines = page.charts["chart-0-return"]
    shown = {line["name"]: line["x"] for line in lines["data"] if line["showlegend"]}
    assert shown == {
        "awac with actions (1 seed)": [-100],
        "iql with actions (1 seed)": [-100, 0, 100],
        "td3 alone (1 seed)": [100],
    }
    assert lines["layout"]["xaxis"]["title"]["text"] == "environment steps; below 0, updates from the log"
    assert f"{tmp_path / 'awac'} is unfinished: shown up to step 100 of 500." in page.all("li")


def test_texts_of_runs_are_escaped_wherever_they_go(tmp_path, page_of):
    evil = "<script>alert(1)</script>"
    name = "</script><b>"
    run = guided(tmp_path / "<script>x", 1.0, 2.0, environment=evil, agent=name)
    rows = (run / "metrics.jsonl").read_text().replace("realised/height", "realised/<img src=x>")
    (run / "metrics.jsonl").write_text(rows)
    harmless = page_of(alone(tmp_path / "plain", 1.0))
    page = page_of(run)
    assert page.all("h1") == [evil]
    assert [tag for tag, _ in page.elements].count("script") == [tag for tag, _ in harmless.elements].count("script")
    assert not {"b", "img"} & {tag for tag, _ in page.elements}
    assert "<script>x" in page.inside("command") + "".join(page.all("code"))
    # Plotly interprets tags, so it gets entities.
    key = next(key for key in page.charts if "realised-" in key)
    assert page.charts[key]["data"][0]["y"][0] == "&lt;img src=x&gt;"
    assert page.charts["chart-0-return"]["data"][0]["name"] == "&lt;/script&gt;&lt;b&gt; guided by switch (1 seed)"


def test_the_page_brings_everything_along(tmp_path, page_of):
    page = page_of(alone(tmp_path / "a", 1.0))
    links = [value for _, attributes in page.elements for name, value in attributes.items() if name in ("src", "href")]
    assert all(link.startswith(("#", "data:")) for link in links)
    assert gzip.decompress(base64.b64decode(page.inside("plotly"))).decode() == get_plotlyjs()


def test_the_command_that_made_the_page_is_on_it_and_the_same_runs_make_the_same_page(tmp_path):
    run = alone(tmp_path / "my run", 1.0)
    first = report([run], tmp_path / "page.html").read_bytes()
    again = report(str(run), str(tmp_path / "page.html"), overwrite=True).read_bytes()
    assert first == again
    command = f"actionless report '{run}' --out {tmp_path / 'page.html'}"
    assert Page(first.decode()).all("code") == [command]
