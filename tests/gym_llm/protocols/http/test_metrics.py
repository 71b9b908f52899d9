"""What Prometheus is told: its text format, of one process and of several."""

from __future__ import annotations

import asyncio

import aiohttp
from aiohttp import web

from gym_llm.protocols.http.http_server import listening
from gym_llm.protocols.http.metrics import Histogram, Metric, Metrics, sum_metrics


def lines(text: str) -> dict[str, str]:
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_requests_are_counted_by_route_and_status() -> None:
    async def main() -> None:
        metrics = Metrics()
        application = web.Application(middlewares=[metrics.count])

        async def hello(http: web.Request) -> web.Response:
            return web.Response(status=int(http.match_info["status"]))

        application.router.add_get("/hello/{status}", hello)
        application.router.add_get("/metrics", metrics.answer)
        async with listening(application, "127.0.0.1", 0) as port, aiohttp.ClientSession() as session:
            for path in ("hello/200", "hello/200", "hello/404", "nowhere", 'hello/a"b'):
                await session.get(f"http://127.0.0.1:{port}/{path}")
            async with session.get(f"http://127.0.0.1:{port}/metrics") as answer:
                assert answer.content_type == "text/plain"
                told = lines(await answer.text())
        route = 'route="GET /hello/{status}"'
        assert told[f'gym_llm_http_requests_total{{{route},status="200"}}'] == "2"
        assert told[f'gym_llm_http_requests_total{{{route},status="404"}}'] == "1"
        assert told['gym_llm_http_requests_total{route="other",status="404"}'] == "1"
        assert told[f"gym_llm_http_request_seconds_count{{{route}}}"] == "4"
        assert told["gym_llm_http_requests_under_way"] == "1"
        assert float(told["process_resident_memory_bytes"]) > 10e6
        assert float(told["process_cpu_seconds_total"]) > 0

    asyncio.run(main())


def test_a_histogram_counts_up_to_each_bound_and_labels_are_escaped() -> None:
    seconds = Histogram()
    for each in (0.0005, 0.001, 0.02, 1000.0):
        seconds.observe(each)
    told = lines(Metrics(lambda: [Metric("x_seconds", "histogram", "Some.", [({"who": 'a"\\\n'}, seconds)])]).text())
    bucket = 'x_seconds_bucket{who="a\\"\\\\\\n",le="%s"}'
    assert [told[bucket % bound] for bound in ("0.001", "0.01", "0.025", "300", "+Inf")] == ["2", "2", "3", "3", "4"]
    assert told['x_seconds_count{who="a\\"\\\\\\n"}'] == "4"
    assert float(told['x_seconds_sum{who="a\\"\\\\\\n"}']) == 1000.0215


def test_the_metrics_of_processes_are_added_up() -> None:
    def text(open_: int, **outcomes: int) -> str:
        values = [({"outcome": name}, count) for name, count in outcomes.items()]
        return Metrics(
            lambda: [Metric("open", "gauge", "Open.", [({}, open_)]), Metric("ended", "counter", "Ended.", values)]
        ).text()

    told = sum_metrics([text(3, scored=1), text(4, scored=2, masked=5), text(0)])
    assert told.startswith("# HELP open Open.\n# TYPE open gauge\nopen 7\n# HELP ended Ended.\n# TYPE ended counter\n")
    assert lines(told)['ended{outcome="scored"}'] == "3"
    assert lines(told)['ended{outcome="masked"}'] == "5"
    assert told.count("# TYPE ended") == 1
