"""Search: the index, the services, what a model may open, and how answers are compared."""

import asyncio
import json

import gymnasium as gym
import pytest
from aiohttp import web
from testing import ROOT, function_call, message, outputs, row, serving
from verifier_vectors import replay_all

from gym_llm.data import read_jsonl
from gym_llm.envs.search import backends, fetching
from gym_llm.envs.search.bm25 import Document, Index, read_documents
from gym_llm.envs.search.fetching import BadURL, PublicResolver, check_url, fetch_page, is_public, text_of
from gym_llm.envs.search.pages import around, excluded, scrolled, shortened
from gym_llm.errors import DataError, InfrastructureError

DOCUMENTS = read_documents(str(ROOT / "envs/search/data/documents.jsonl"))
LETTER, SHORT = {"expected_answer": "B"}, {"ground_truth": "Lomsund", "question": "Where?"}


def play(task, *turns, **kwargs):
    """(reward, info, the tools' outputs as JSON) of some turns."""
    env = gym.make("gym_llm/Search-v0", **kwargs)
    env.reset(options={"task": row("Where?", **task)})
    for turn in turns:
        observation, reward, terminated, _, info = env.step(turn)
    assert terminated
    env.close()
    return reward, info, [json.loads(text) for text in outputs(observation)]


def ask(name, arguments, **kwargs):
    return play(LETTER, [function_call(name, arguments)], message("?"), **kwargs)[2][0]


def test_recorded_episodes_score_as_recorded():
    assert len(replay_all("google_search")) >= 3


def test_every_example_can_be_answered_from_the_pages():
    seen = " ".join(document.text for document in DOCUMENTS)
    for _, task in read_jsonl(ROOT / "envs/search/data/example.jsonl"):
        if "ground_truth" in task:
            assert task["ground_truth"] in seen
    assert ask("browse", {"url": "https://people.example/marit-aasen"})["page_content"].count("Lomsund") == 1


def test_the_best_page_comes_first():
    index = Index(DOCUMENTS)
    assert index.search("Who kept Korpholm's light and painted gulls?")[0].title == "Ansgar Lund"
    assert index.search("ferry timetable winter")[0].url == "https://vessby.example/ferries"
    assert index.search("xylophone") == [] == index.search("")
    assert "1874" in index.search("1874")[0].summary
    assert len(Index([Document(str(n), "a", "b") for n in range(30)]).search("b")) == 10


def test_rare_words_count_more_and_long_pages_less():
    pages = ["cat dog dog dog", "cat " + "bird " * 50, "dog dog", "owl dog"]
    index = Index([Document(str(number), "", text) for number, text in enumerate(pages)])
    assert [each.url for each in index.search("cat")] == ["0", "1"]
    assert index.search("owl dog")[0].url == "3"


def test_a_folder_of_texts_can_be_searched(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "tea.md").write_text("# Tea\n\nGreen and black.")
    (tmp_path / "coffee.txt").write_text("")
    assert read_documents(str(tmp_path))[0] == ("file:a/tea.md", "Tea", "# Tea\n\nGreen and black.")
    backend = f"local:{tmp_path}"
    found = json.loads(ask("search", {"query": "green"}, backend=backend)["search_results"])
    assert found["items"] == [{"title": "Tea", "link": "file:a/tea.md", "snippet": "# Tea Green and black."}]
    assert ask("browse", {"url": "file:a/tea.md"}, backend=backend) == {"page_content": "# Tea\n\nGreen and black."}
    assert ask("browse", {"url": "file:/etc/passwd"}, backend=backend) == {"page_content": "No text found"}
    (tmp_path / "bad.jsonl").write_text("{}")
    with pytest.raises(DataError, match="a document has the texts"):
        read_documents(str(tmp_path / "bad.jsonl"))


def test_the_other_tools_answer_for_reading():
    text = ask("web_search", {"query": "oystercatcher pairs"})["results_string"]
    assert text.startswith("Search Results\n==============\n[1] Oystercatcher (birds.example)\n    URL: https://birds")
    assert ask("web_search", {"query": "a" * 401}) == {"results_string": "Query is too long"}
    url = "https://vessby.example/ferries"
    assert "L1: In winter" in ask("find_in_page", {"url": url, "query": "winter"})["results_string"]
    part = ask("scroll_page", {"url": url, "start_index": 2, "n": 3})
    assert part["total_words"] == 29 and part["results_string"].endswith("L0: Sula goes to")
    assert "[2-5] of 29" in part["results_string"]
    assert ask("scroll_page", {"url": "https://no.example"}) == {"results_string": "No text found", "total_words": 0}


def test_pages_are_cut_where_they_are_long():
    assert shortened("a " * 10_000) == "a " * 10_000
    long = "".join(f"w{number} " for number in range(10_001))
    assert shortened(long) == f"{long[:5_000]}...{long[-5_000:]}"
    page = "\n".join(f"line {number}" for number in range(1_000))
    assert "L500: line 500" in around("u", "500", page) and "truncated" in around("u", "500", page)
    assert len(around("u", "x", "y" * 500_000)) < 2_500
    assert scrolled("u", "a b c", -5, 10**9)[0].endswith("L0: a b c")


def test_excluded_domains_are_neither_found_nor_read(tmp_path):
    file = tmp_path / "excluded.json"
    file.write_text(json.dumps({"notices": [{"properties": [{"type": "domain", "value": "vessby.example"}]}]}))
    kwargs = {"exclude_domains_file_path": str(file)}
    assert (
        "vessby"
        not in ask("web_search", {"query": "ferry Vessby harbour"}, **kwargs)["results_string"].split("URL")[-1]
    )
    url = "https://vessby.example/ferries"
    assert ask("browse", {"url": url}, **kwargs) == {"page_content": "URL is in excluded domains"}
    domains = frozenset({"a.example"})
    assert excluded("https://b.A.example./x", domains) and not excluded("https://ba.example", domains)
    file.write_text("[]")
    with pytest.raises(ValueError, match="must be JSON of"):
        gym.make("gym_llm/Search-v0", **kwargs)


@pytest.mark.parametrize(
    ("text", "reward", "option"),
    [
        (r"\boxed{B}", 1.0, "B"),
        (r"\boxed{A}, no: \boxed{ B }", 1.0, "B"),
        (r"\boxed{B} \boxed{A}", 0.0, "A"),
        (r"\boxed{b}", 0.0, "b"),
        (r"\boxed{\textbf{(B)}}", 1.0, "B"),
        (r"\boxed{B} as asked, in \boxed{}", 1.0, "B"),
        (r"\boxed{A or B}", 0.0, "A or B"),
        ("B", 0.0, None),
    ],
)
def test_the_letter_in_the_last_box_counts(text, reward, option):
    assert play(LETTER, message(text))[:2] == (reward, {**play(LETTER, message(text))[1], "parsed_option": option})


def test_nemo_gym_reads_the_first_box_of_the_last_item():
    text = r"\boxed{A}, no: \boxed{B}"
    assert play(LETTER, message(text), conform="nemo")[1]["parsed_option"] == "A"
    assert play(LETTER, message(r"\boxed{\text{B}}"), conform="nemo")[1]["parsed_option"] == "\\\\text{B"
    assert play(LETTER, message(r"\boxed{}"), conform="nemo")[1]["parsed_option"] == ""
    assert play(LETTER, message("none"), conform="nemo")[1]["parsed_option"] is None


@pytest.mark.parametrize(
    ("said", "ours", "nemo"),
    [
        ("correct: yes", 1.0, 1.0),
        ("**Correct: Yes**", 1.0, 0.0),
        ("To say correct: no would be wrong.\ncorrect: yes", 1.0, 0.0),
        ("It is correct: yes? No.\ncorrect: no", 0.0, 1.0),
    ],
)
def test_the_judges_last_word_counts(said, ours, nemo):
    judge = {"judge": f"constant:{said}"}
    answer = message("Answer: the town of Lomsund")
    assert play(SHORT, answer, **judge)[0] == ours
    assert play(SHORT, answer, **judge, conform="nemo")[0] == nemo
    assert play(SHORT, message(""), **judge)[1]["extracted_final_answer"] == "no"  # nobody is asked


def test_without_a_judge_the_answer_has_to_be_the_right_one():
    reward, info, _ = play(SHORT, message("Answer: Oslo Confidence: 1%\nAnswer: Lomsund Confidence: 90%"))
    assert (reward, info["extracted_final_answer"], info["num_tool_calls"]) == (1.0, "Lomsund", 0)
    assert play(SHORT, message("Lomsund"))[0] == 0.0
    assert play({**SHORT, "ground_truth": ""}, message("Oslo"))[0] == 1.0  # as upstream: nothing was asked for


@pytest.mark.parametrize("task", [{}, {**LETTER, **SHORT}])
def test_a_row_has_one_right_answer(task):
    with pytest.raises(DataError, match="one of them"):
        gym.make("gym_llm/Search-v0", tasks=[row(**task)])


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"backend": "bing"}, "backend is local:PATH, google or tavily"),
        ({"backend": "local:/no/such/folder"}, "there is no /no/such/folder"),
        ({"backend": "google"}, "GOOGLE_API_KEY and GOOGLE_CX"),
        ({"use_judge": True}, "use_judge needs a judge"),
    ],
)
def test_arguments_are_checked(kwargs, said, monkeypatch):
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    monkeypatch.delenv("GOOGLE_CX", raising=False)
    with pytest.raises(ValueError, match=said):
        gym.make("gym_llm/Search-v0", **kwargs)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd", "ftp://a.example", "//a.example", "a.example", "http://", "http://[", "gopher://a",
        "http://127.0.0.1/", "http://[::1]:80/", "http://10.1.2.3", "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:127.0.0.1]/", "http://0.0.0.0", "http://192.168.0.1", "http://me:pw@a.example/",
        "http://a.example:99999/", "http://a.example/" + "a" * 3_000, "http://[fe80::1%25eth0]/", "http://224.0.0.1",
    ],
)  # fmt: skip
def test_only_the_public_web_may_be_opened(url):
    with pytest.raises(BadURL):
        check_url(url)


def test_a_names_addresses_are_looked_at_too():
    check_url("https://a.example/b?c=d")
    assert is_public("1.1.1.1") and is_public("2606:4700::1111") and not is_public("100.64.0.1")

    async def resolve(host):
        await PublicResolver().resolve(host, 80)

    for host in ("localhost", "2130706433", "0x7f.1"):
        with pytest.raises(BadURL, match="not on the public internet"):
            asyncio.run(resolve(host))
        with pytest.raises(BadURL, match=r"not on the public internet|could not be fetched"):
            asyncio.run(fetch_page(f"http://{host}/"))


def test_pages_are_fetched_as_text_and_not_without_end():
    async def answer(request):
        path = request.match_info["path"]
        if path == "loop":
            return web.Response(status=302, headers={"Location": "/loop"})
        if path == "there":
            return web.Response(status=301, headers={"Location": "/page"})
        if path == "metadata":
            return web.Response(status=302, headers={"Location": "ftp://169.254.169.254/"})
        if path == "picture":
            return web.Response(body=b"\x89PNG", content_type="image/png")
        if path == "long":
            return web.Response(text="a" * 3_000_000)
        if path == "page":
            return web.Response(text="<p>One<p>two<script>3</script>", content_type="text/html")
        return web.Response(status=404)

    async def fetch():
        async with serving({"/{path:.*}": answer}) as url:
            assert await fetch_page(f"{url}/page", allow_private=True) == "One\ntwo"
            assert await fetch_page(f"{url}/there", allow_private=True) == "One\ntwo"
            assert len(await fetch_page(f"{url}/long", allow_private=True)) == 1_000_000
            for path, said in [("loop", "too many"), ("metadata", "Only http"), ("picture", "image/png"), ("", "404")]:
                with pytest.raises(BadURL, match=said):
                    await fetch_page(f"{url}/{path}", allow_private=True)
            with pytest.raises(BadURL, match="not on the public internet"):
                await fetch_page(f"{url}/page")

    asyncio.run(fetch())


@pytest.mark.parametrize("unit", ["<p>", "<", "<a b='", "&", "<!--", "</p>", "<script>", "a "])
def test_hostile_pages_are_read_within_seconds(unit):
    assert isinstance(text_of(unit * (100_000 // len(unit))), str)


def test_services_are_asked_with_keys_that_no_message_has(monkeypatch):
    asked, statuses = [], []

    async def answer(request):
        asked.append((request.method, request.path, dict(request.query), dict(request.headers), await request.text()))
        if statuses:
            return web.Response(status=statuses.pop(0))
        if request.path == "/extract":
            return web.json_response({"results": [{"raw_content": "Tea is green."}]})
        item = {"title": "Tea", "link": "https://a.example", "snippet": "green", "url": "https://a.example"}
        return web.json_response({"items": [item], "results": [{**item, "content": "green"}]})

    async def search():
        for name in ("GOOGLE_API_KEY", "GOOGLE_CX", "TAVILY_API_KEY"):
            monkeypatch.setenv(name, f"secret-{name}-1234")
        monkeypatch.setattr(backends, "_SECONDS_BETWEEN", 0.0)
        async with serving({"/{path:.*}": answer}) as url:
            google, tavily = backends.Google(url=url), backends.Tavily(url=url)
            statuses.extend([503, 429])
            assert await google.search("tea?") == [("Tea", "https://a.example", "green")]
            assert asked[-1][2] == {"key": "secret-GOOGLE_API_KEY-1234", "cx": "secret-GOOGLE_CX-1234", "q": "tea?"}
            assert len(asked) == 3
            assert await tavily.search("tea?") == [("Tea", "https://a.example", "green")]
            assert asked[-1][3]["Authorization"] == "Bearer secret-TAVILY_API_KEY-1234"
            assert await tavily.page("https://a.example") == "Tea is green."
            assert json.loads(asked[-1][4]) == {"urls": ["https://a.example"]}
            statuses.append(403)
            with pytest.raises(InfrastructureError, match=r"^Google's search answered 403\.$"):
                await google.search("tea?")
            monkeypatch.setattr(backends, "_MOST_BYTES", 10)
            with pytest.raises(InfrastructureError) as caught:
                await google.search("tea?")
            assert "secret" not in str(caught.value)
            await google.aclose()
            await tavily.aclose()

    asyncio.run(search())
    assert fetching.MOST_REDIRECTS < 10
