"""What the viewer's page shows and does, in the chromium of this machine."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow  # a browser

REWARDS = [0.0, 0.3, 1.0]  # of the repeats
FAILED = 4  # this task's last repeat has no reward
BIG = 20_000
IDS = 50_000


def episodes(make: Any) -> list[dict[str, Any]]:
    """30 tasks, each three times; task 3 is a long conversation, task 7 has token ids."""
    records = []
    for task in range(30):
        for repeat, reward in enumerate(REWARDS):
            failed = task == FAILED and repeat == 2
            each = make.record(
                task,
                repeat,
                None if failed else reward,
                dataset="even/all" if task % 2 == 0 else "odd/all",
                expected=f"needle{task}",
            )
            each["info"].update(judge_score=(task * 7 + repeat) % 30, extracted_answer=f"a{repeat}")
            records.append(each)
    long = records[3 * 3 + 1]
    long["response"]["output"] = [
        make.thought("First I look.\nThen I answer."),
        *make.called("lookup", '{"city": "Bern", "days": 2}', '{"sky": "clear", "wind": 3}', "c1"),
        make.thought("Once more."),
        *make.called("nothing", '{"x": 1}', '{"error":"There is no tool named nothing."}', "c2"),
        make.said("It is clear in Bern."),
    ]
    long["info"]["reward_components"] = {"correct": 1.0, "length": -0.25}
    long["turn_timing"] = [{"engine": 0.5, "env": 0.1}, {"engine": 0.2, "env": 0.0}, {"engine": 0.4, "env": 0.05}]
    records[3 * 3 + 2]["response"]["output"] = [
        make.thought("First I look.\nThen I guess."),
        *make.called("lookup", '{"city": "Rome", "days": 2}', '{"sky": "clear", "wind": 3}', "c1"),
        make.said("It is clear in Rome."),
    ]
    records[FAILED * 3 + 2]["traceback"] = "Traceback (most recent call last):\n  ValueError: forty two"
    tokens = records[7 * 3]
    tokens["response"]["output"] = [{**make.said("Two words."), "trajectory_span": [0, 4, 7]}]
    tokens["trajectory"] = [
        {
            "input_ids": [11, 12, 13, 14, 21, 22, 23],
            "loss_mask": [0] * 4 + [1] * 3,
            "logprobs": [0.0] * 4 + [-0.01, -1.0, -7.0],
        },
        {"input_ids": list(range(IDS)), "loss_mask": [0] * 100 + [1] * (IDS - 100), "logprobs": [-0.5] * IDS},
    ]
    return records


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, make: Any) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    big = [make.record(task, 0, task % 11 / 10) for task in range(BIG)]
    second = [make.record(task, 0, -1.0 + task % 5) for task in range(50)]
    return [
        make.write(folder / "first.jsonl", episodes(make)),
        make.write(folder / "second.jsonl", second),
        make.write(folder / "big.jsonl", big),
    ]


@pytest.fixture(scope="module")
def url(files: list[Path], serve: Callable[..., Any], browser: Any) -> Iterator[str]:
    with serve(*files) as address:
        yield address


@pytest.fixture
def open_at(url: str, visit: Callable[..., Any]) -> Callable[..., Any]:
    """The page at a fragment, when it is there."""

    def open_page(fragment: str = "", **settings: Any) -> Any:
        page = visit(url + fragment, **settings).page
        page.locator("main:not([hidden]) :is(tbody tr[aria-rowindex] td + td, .episode-head)").first.wait_for()
        return page

    return open_page


def found(page: Any, text: str) -> None:
    page.locator(".found", has_text=re.compile(f"^{re.escape(text)}$")).wait_for()


def choose_column(page: Any, name: str) -> None:
    """Puts a field's column into the list, or takes it out."""
    page.get_by_text("Columns", exact=True).click()
    page.get_by_role("checkbox", name=name).click()
    page.get_by_role("heading", name="Rewards").click()  # anywhere else: the menu closes
    page.get_by_role("checkbox", name=name).wait_for(state="hidden")


def shows(page: Any, heading: str) -> None:
    page.locator("h1", has_text=re.compile(f"^{heading}$")).wait_for()


def test_runs_stand_side_by_side(open_at: Any) -> None:
    page = open_at()
    cards = page.locator(".card")
    page.locator(".card-name", has_text="test").nth(2).wait_for()  # the model
    assert sorted(page.locator(".card-foot bdi").all_text_contents()) == ["big", "first", "second"]
    page.locator(".card", has_text="second").get_by_text("± ").wait_for()
    assert page.locator(".card", has_text="second").locator(".card-mean b").inner_text() == "1"
    assert "98.9% scored" in page.locator(".card", has_text="first").inner_text()
    cards.nth(2).locator("svg.sparkline").wait_for()
    page.locator(".card", has_text="second").click()
    found(page, "50 episodes")
    assert page.url.endswith("#run=second")


def test_a_card_without_a_reward_stays_whole_on_a_phone_and_names_its_engine(
    serve: Callable[..., Any], visit: Callable[..., Any], make: Any, tmp_path: Path
) -> None:
    engine = "http://inference.example.org:8000/v1"
    path = make.write(tmp_path / f"{'a_long_name_' * 5}.jsonl", [make.record(0, 0, None)])
    path.with_suffix(".summary.json").write_text(json.dumps({"settings": {"engine": engine}}), "utf-8")
    with serve(path, make.write(tmp_path / "other.jsonl", [make.record(0, 0, 1.0)])) as address:
        card = visit(address).page.locator(".card", has_text="a_long_name_")
        card.page.set_viewport_size({"width": 390, "height": 844})
        card.get_by_text(f"engine {engine}").wait_for()
        assert card.evaluate("card => card.scrollWidth <= card.clientWidth")


def test_runs_are_a_table_that_sorts(open_at: Any) -> None:
    page = open_at()
    page.get_by_role("button", name="Table", exact=True).click()
    rows = page.locator(".runs-table tbody tr")
    assert rows.count() == 3 and page.locator(".card").count() == 0
    page.locator(".runs-table tr", has_text="second").locator(".right", has_text=re.compile("^1 ± ")).wait_for()
    rows.filter(has_text=f"{BIG:,}").wait_for()  # its index is made
    page.locator(".runs-table [data-sort=episodes]").click()
    page.locator(".runs-table th[aria-sort=ascending] [data-sort=episodes]").wait_for()
    assert [row.locator("td").nth(4).inner_text() for row in rows.all()] == ["50", "90", f"{BIG:,}"]
    page.locator(".runs-table [data-sort=episodes]").click()
    page.locator(".runs-table th[aria-sort=descending] [data-sort=episodes]").wait_for()
    assert rows.first.locator("td").nth(4).inner_text() == f"{BIG:,}"
    page.locator(".runs-table tr", has_text="second").click()
    found(page, "50 episodes")
    assert "run=second" in page.url and "runs=table" in page.url


def test_rewards_of_0_and_1_are_bars(tmp_path: Path, make: Any, serve: Any, visit: Any) -> None:
    rewards = [1.0] * 6 + [0.0] * 3 + [None]
    path = make.write(tmp_path / "run.jsonl", [make.record(n, 0, reward) for n, reward in enumerate(rewards)])
    with serve(path) as url:
        page = visit(url).page
        found(page, "10 episodes")
        bars = page.locator(".reward-bar")
        assert [bar.inner_text().split() for bar in bars.all()] == [
            ["1", "6", "60.0%"],
            ["0", "3", "30.0%"],
            ["masked", "1", "10.0%"],
        ]
        assert page.locator(".histogram").count() == 0
        page.get_by_role("button", name="3 episodes with a reward of 0").click()
        found(page, "3 of 10 episodes")
        page.get_by_role("button", name="3 episodes with a reward of 0").click()
        found(page, "10 episodes")


def test_a_dot_of_length_and_reward_is_an_episode(tmp_path: Path, make: Any, serve: Any, visit: Any) -> None:
    records = [make.record(n, 0, n / 10) for n in range(11)]
    for n, record in enumerate(records):
        record["response"]["usage"] = {"input_tokens": 5, "output_tokens": 100 + n}
    path = make.write(tmp_path / "run.jsonl", records)
    with serve(path) as url:
        page = visit(url).page
        found(page, "11 episodes")
        canvas = page.locator(".scatter canvas")
        box = canvas.bounding_box()
        canvas.hover(position={"x": box["width"] - 10, "y": 9})  # the longest, with the highest reward
        page.get_by_text("task 10, repeat 0: 110 tokens, reward 1", exact=True).wait_for()
        canvas.click(position={"x": box["width"] - 10, "y": 9})
        shows(page, "Task 10 repeat 0")


def test_each_task_is_seen_in_all_runs_of_the_same_tasks(tmp_path: Path, make: Any, serve: Any, visit: Any) -> None:
    def records(env_id: str, reward: float, first: int = 0) -> list[Any]:
        return [make.record(first + n, 0, reward * (n % 2), env_id=env_id) for n in range(8)]

    played = {"one": ("a/E", 1, 0), "two": ("a/E", 0, 0), "other": ("a/F", 1, 0), "later": ("a/E", 1, 100)}
    with serve(*(make.write(tmp_path / f"{name}.jsonl", records(*how)) for name, how in played.items())) as url:
        page = visit(url + "#run=one").page
        found(page, "8 episodes")
        page.locator(".rate-names li").nth(1).wait_for()
        assert page.locator(".rate-names li").count() == 2  # not another environment, nor other tasks
        assert page.locator(".run-group h3").all_inner_texts() == ["a/E", "a/F"]
        canvas = page.locator(".rate-canvas canvas")
        canvas.hover(position={"x": 1 * 20 + 5, "y": 16 + 22 + 11})
        page.get_by_text("test: task 1, mean reward 0", exact=True).wait_for()
        canvas.click(position={"x": 1 * 20 + 5, "y": 16 + 22 + 11})
        shows(page, "Task 1 repeat 0")
        assert "run=two" in page.url
        page.goto(url + "#run=other")
        found(page, "8 episodes")
        page.locator(".rates").wait_for(state="hidden")


def test_marks_differ_in_shape_not_only_in_colour(open_at: Any) -> None:
    page = open_at()
    shapes = set()
    for row, reward in enumerate(REWARDS):
        mark = page.locator(f"tbody tr[aria-rowindex='{row + 2}'] .mark")
        shapes.add(
            mark.evaluate(
                "element => [...element.children].map((each) => each.tagName + (each.getAttribute('d') ?? '')).join()"
            )
        )
        assert mark.locator("..").inner_text() == f"{reward:g}"
    page.goto(page.url.split("#")[0] + "#outcome=masked")
    found(page, "1 of 90 episodes")
    shapes.add(
        page.locator("tbody .mark").evaluate(
            "element => [...element.children].map((each) => each.getAttribute('class')).join()"
        )
    )
    assert len(shapes) == 4


def test_the_list_is_in_the_order_of_tasks_or_another(tmp_path: Path, make: Any, serve: Any, visit: Any) -> None:
    order = [(2, 0), (0, 1), (1, 0), (0, 0)]
    records = [make.record(task, repeat, 1.0 if task else 0.0) for task, repeat in order]
    path = make.write(tmp_path / "run.jsonl", records)
    with serve(path) as url:
        page = visit(url).page
        found(page, "4 episodes")

        def tasks() -> list[str]:
            return [row.get_attribute("aria-label") for row in page.locator("tbody tr[aria-rowindex] a").all()]

        assert tasks() == [f"Task {task}, repeat {repeat}" for task, repeat in sorted(order)]
        page.get_by_label("Order").select_option("as they finished")
        page.locator("tbody tr[aria-rowindex='2'] a[aria-label='Task 2, repeat 0']").wait_for()
        assert tasks() == [f"Task {task}, repeat {repeat}" for task, repeat in order]
        page.get_by_label("Order").select_option("hardest tasks first")
        page.locator("tbody tr[aria-rowindex='2'] a[aria-label='Task 0, repeat 0']").wait_for()
        assert page.locator("tbody tr[aria-rowindex='2'] td", has_text="Question 0?").count() == 1  # the prompt


def test_an_address_names_run_and_dataset(tmp_path: Path, make: Any, serve: Any, visit: Any) -> None:
    records = [make.record(0, 0, reward, dataset=name) for name, reward in (("one", 0.0), ("two", 1.0))]
    paths = [make.write(tmp_path / f"{name}.jsonl", records) for name in ("first", "second")]
    with serve(*paths) as url:
        page = visit(url + "#run=second&task=0&repeat=0&of=two").page
        shows(page, "Task 0 repeat 0")
        assert (
            page.locator(".verdict .big").inner_text() == "1" and page.locator(".place").inner_text() == "second.jsonl"
        )
        page.goto(url + "#run=third&task=0")
        page.get_by_text("No file here is named third: first is shown.").wait_for()


def test_a_bar_of_the_histogram_filters_and_a_second_click_undoes_it(open_at: Any) -> None:
    page = open_at()
    bar = page.get_by_role("button", name=re.compile("^30 episodes with a reward from 0 "))
    bar.click()
    found(page, "30 of 90 episodes")
    assert page.get_by_role("button", name=re.compile("with a reward from 0 ")).get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name=re.compile("with a reward from 0 ")).click()
    found(page, "90 episodes")
    page.get_by_role("button", name=re.compile(" to 1$")).press("Enter")
    found(page, "29 of 90 episodes")


def test_a_square_of_the_grid_is_an_episode(open_at: Any) -> None:
    page = open_at()
    canvas = page.locator(".grid canvas")
    pitch = 22  # the largest: 30 tasks fit
    canvas.hover(position={"x": FAILED // 2 * pitch + 5, "y": 14 + 2 * pitch + 5})  # the even ones are first: a dataset
    assert page.locator(".grid .note").inner_text() == f"even/all, task {FAILED}, repeat 2: masked, no reward"
    canvas.focus()
    page.mouse.move(5, 5)
    for key in ("ArrowDown", "ArrowRight", "ArrowDown"):
        canvas.press(key)
    assert page.locator(".grid .note").inner_text() == "even/all, task 2, repeat 1: reward 0.3"
    canvas.press("Enter")
    shows(page, "Task 2 repeat 1")
    page.go_back()
    canvas.click(position={"x": 3 * pitch + 5, "y": 14 + 5})
    shows(page, "Task 6 repeat 0")


def test_a_grid_of_many_tasks_has_pages(open_at: Any) -> None:
    page = open_at("#run=2")
    found(page, f"{BIG:,} episodes")
    pager = page.locator(".pager span")
    pager.get_by_text(re.compile(f"^1–.* of {BIG:,} tasks$")).wait_for()
    last = int(pager.inner_text().split()[0].split("–")[1])
    page.get_by_role("button", name="Later tasks").click()
    pager.get_by_text(re.compile(f"^{last + 1:,}–")).wait_for()
    page.locator(".grid canvas").hover(position={"x": 3, "y": 17})
    assert page.locator(".grid .note").inner_text() == f"task {last}, repeat 0: reward {last % 11 / 10:g}"
    page.get_by_role("button", name="Earlier tasks").click()
    pager.get_by_text(re.compile("^1–")).wait_for()


def test_filters_are_in_the_address(open_at: Any) -> None:
    page = open_at()
    for fragment, count in [
        ("outcome=masked", 1),
        ("failure_kind=verifier_error", 1),
        ("dataset=odd%2Fall", 45),
        ("reward_min=0.2&reward_max=0.5", 30),
        ("q=NEEDLE17", 3),
        ("q=needle17&reward_min=0.5", 1),
        ("q=nowhere", 0),
    ]:
        page.evaluate("fragment => { location.hash = fragment; }", f"run=0&{fragment}")
        found(page, f"{count} of 90 episodes")
    page.get_by_text("No episode matches these filters.").wait_for()
    page.get_by_role("button", name="Clear").click()
    found(page, "90 episodes")


def test_filters_are_set_in_the_page(open_at: Any) -> None:
    page = open_at()
    page.get_by_role("button", name="masked 1").click()
    found(page, "1 of 90 episodes")
    page.get_by_role("button", name="masked 1").click()
    page.get_by_label("Dataset").select_option("even/all")
    found(page, "45 of 90 episodes")
    page.get_by_role("spinbutton", name="Reward from").fill("0.9")
    page.get_by_role("spinbutton", name="Reward from").press("Enter")
    found(page, "14 of 90 episodes")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("needle2")
    found(page, "6 of 90 episodes")
    assert "q=needle2" in page.url


def test_the_list_is_sorted_by_any_column(open_at: Any) -> None:
    page = open_at()
    page.locator("[data-sort=reward]").click()
    page.locator("th[aria-sort=ascending] [data-sort=reward]").wait_for()
    page.locator("[data-sort=reward]").click()
    page.locator("th[aria-sort=descending] [data-sort=reward]").wait_for()
    page.locator("tbody tr[aria-rowindex='2'] td:nth-child(3)", has_text=re.compile("^1$")).wait_for()
    choose_column(page, "judge_score")  # a field of infos
    page.locator("[data-sort=judge_score]").click()
    page.locator("tbody tr[aria-rowindex='2'] td", has_text=re.compile("^29$")).wait_for()
    choose_column(page, "judge_score")
    page.locator("[data-sort=judge_score]").wait_for(state="detached")


def test_only_rows_near_the_window_are_in_the_page(open_at: Any) -> None:
    page = open_at("#run=2")
    found(page, f"{BIG:,} episodes")
    assert page.locator("tbody tr").count() < 80
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.locator(f"tbody tr[aria-rowindex='{BIG + 1}'] td", has_text=f"{BIG - 1:,}").first.wait_for()
    assert page.locator("tbody tr").count() < 80
    page.locator("tbody tr", has_text=f"{BIG - 3:,}").first.click()
    shows(page, f"Task {BIG - 3} repeat 0")
    page.keyboard.press("Escape")  # back at the place in the list
    page.locator("tr[aria-selected=true] td", has_text=f"{BIG - 3:,}").first.wait_for()
    assert page.evaluate("scrollY") > 100_000


def test_an_episode_is_a_conversation(open_at: Any) -> None:
    page = open_at("#run=0&task=3&repeat=1")
    shows(page, "Task 3 repeat 1")
    assert page.locator(".message.user").inner_text().split("\n")[::2] == ["User", "Question 3?"]
    thoughts = page.locator(".reasoning")
    assert thoughts.count() == 2
    assert not page.get_by_text("Then I answer.", exact=False).locator("visible=true").locator(".said").count()
    thoughts.first.locator("summary").click()
    assert thoughts.first.locator(".said").inner_text().strip() == "First I look.\nThen I answer."
    good, bad = page.locator(".call").all()
    assert good.locator(".given").inner_text().split() == ["Call", "lookup", "city", "Bern", "days", "2"]
    assert good.locator(".result").inner_text().split() == ["Result", "sky", "clear", "wind", "3"]
    left, right = (good.locator(part).bounding_box() for part in (".given", ".result"))
    assert right["x"] >= left["x"] + left["width"] - 1  # beside it
    assert right["y"] == left["y"]
    assert bad.locator(".result").inner_text() == "Error\nThere is no tool named nothing."
    red = "Number(getComputedStyle(element).color.match(/\\d+/)[0]) > 150"
    assert bad.locator(".result .said").evaluate(f"element => {red}")
    assert page.locator(".turn-head .timebar").count() == 3
    assert page.locator(".turn-head .timebar").first.get_attribute("title") == "engine 500 ms, environment 100 ms"
    facts = page.locator("main.episode").inner_text()
    for text in ("0.3", "correct\n1", "length\n-0.25", "judge_score", "expected", "needle3", "1.50 s", "tokens in\n10"):
        assert text in facts


def test_a_failed_episode_says_why(open_at: Any) -> None:
    page = open_at(f"#run=0&task={FAILED}&repeat=2")
    failure = page.locator(".failure")
    assert failure.inner_text().startswith("Failed in verify: verifier_error\nThe verifier could not read it.")
    assert page.locator(".verdict").inner_text().startswith("no reward")
    failure.get_by_text("Traceback", exact=True).click()
    assert "ValueError: forty two" in failure.inner_text()


def test_tokens_have_the_colour_of_their_probability(open_at: Any) -> None:
    page = open_at("#run=0&task=7&repeat=0&tab=tokens")
    segments = page.locator(".segment")
    assert segments.count() == 2
    sampled = segments.first.locator(".sampled .token")
    assert sampled.all_text_contents() == ["21", "22", "23"]
    assert [token.get_attribute("class") for token in sampled.all()] == ["token p0", "token p2", "token p5"]
    assert sampled.nth(2).get_attribute("title") == "id 23, position 6\nlog probability -7 (0.091%)"
    assert segments.first.locator(".turn-text").inner_text() == "Model\nTwo words."
    assert "loss mask 1" in segments.first.inner_text()
    prompt = segments.first.locator(".prompt-ids")
    prompt.locator("summary").click()
    prompt.locator(".token").first.wait_for()
    assert prompt.locator(".token.prompt").all_text_contents() == ["11", "12", "13", "14"]
    assert page.locator(".legend > span").count() == 7
    assert page.locator(".token").count() < 8_000  # of 50,000: the others are drawn when they are scrolled to
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.locator(".token", has_text=re.compile(f"^{IDS - 1}$")).wait_for()


def test_two_episodes_of_a_task_are_compared_word_by_word(open_at: Any) -> None:
    page = open_at("#run=0&task=3&repeat=1")
    page.get_by_role("tab", name="Compare").click()
    page.get_by_label("Repeat 1 beside").select_option("2")
    page.get_by_role("heading", name="repeat 2, reward 1").wait_for()
    assert page.locator(".removed mark").all_inner_texts()[:2] == ["answer", "Bern"]
    assert page.locator(".added mark").all_inner_texts()[:2] == ["guess", "Rome"]
    assert "vs=2" in page.url
    assert page.locator(".line.same", has_text="First I look.").count() == 2


def test_an_address_leads_to_an_episode_and_the_back_button_to_where_one_was(open_at: Any) -> None:
    page = open_at("#run=0&task=3&repeat=1")
    shows(page, "Task 3 repeat 1")
    page.evaluate("location.hash = '#run=0&task=5&repeat=0'")
    shows(page, "Task 5 repeat 0")
    page.get_by_role("link", name="All episodes").click()
    found(page, "90 episodes")
    page.go_back()
    shows(page, "Task 5 repeat 0")
    page.go_back()
    shows(page, "Task 3 repeat 1")
    page.evaluate("location.hash = '#run=0&task=77&repeat=0'")
    page.get_by_text("This file has no task 77, repeat 0.").wait_for()


def test_keys(open_at: Any) -> None:
    page = open_at()
    for key in ("j", "j", "k", "j", "Enter"):
        page.keyboard.press(key)
    shows(page, "Task 0 repeat 1")
    page.keyboard.press("j")
    shows(page, "Task 0 repeat 2")
    page.keyboard.press("j")
    shows(page, "Task 2 repeat 0")  # in the order of tasks, dataset by dataset
    page.keyboard.press("k")
    shows(page, "Task 0 repeat 2")
    page.keyboard.press("t")
    page.get_by_text("This episode has no token ids").wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").wait_for()
    page.keyboard.press("j")  # not while the help is open
    page.keyboard.press("Escape")
    page.get_by_role("dialog", name="Keys").wait_for(state="hidden")
    shows(page, "Task 0 repeat 2")
    page.keyboard.press("Escape")
    found(page, "90 episodes")
    page.keyboard.press("/")
    page.keyboard.type("needle1j")
    assert page.get_by_role("searchbox").input_value() == "needle1j"
    found(page, "0 of 90 episodes")


def test_next_follows_the_lists_order_from_an_address(open_at: Any) -> None:
    page = open_at("#run=0&task=3&repeat=2&sort=reward&desc=1")
    shows(page, "Task 3 repeat 2")
    page.keyboard.press("j")
    shows(page, "Task 5 repeat 2")  # task 4's has no reward


def test_dark_and_light(open_at: Any) -> None:
    page = open_at(color_scheme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(paper) == "rgb(20, 22, 26)"
    page.keyboard.press("m")
    assert page.evaluate(paper) == "rgb(250, 249, 247)"
    page.reload()
    page.locator(".found").wait_for()
    assert page.evaluate(paper) == "rgb(250, 249, 247)"


def test_a_growing_file_is_followed_from_where_one_is(tmp_path: Path, make: Any, serve: Any, visit: Any) -> None:
    path = make.write(tmp_path / "run.jsonl", [make.record(task) for task in range(100)])
    with serve(path) as url:
        page = visit(url).page
        found(page, "100 episodes")
        page.evaluate("scrollTo(0, 1500)")
        page.locator("tbody tr[aria-rowindex='45'] td", has_text="43").first.wait_for()
        row = "document.querySelector('tr[aria-rowindex=\"45\"]').getBoundingClientRect().top"
        before = page.evaluate(row)
        make.write(path, [make.record(task, 0, 0.0) for task in range(100, 120)], "a")
        found(page, "120 episodes")
        page.locator("tbody tr[aria-rowindex='45'] td", has_text="43").first.wait_for()
        assert abs(page.evaluate(row) - before) < 2
        page.get_by_role("button", name="20 episodes with a reward of 0").wait_for()
        page.locator("tbody tr", has_text="43").first.click()
        shows(page, "Task 43 repeat 0")
        make.write(path, [make.record(120)], "a")
        page.keyboard.press("Escape")
        found(page, "121 episodes")


def test_an_empty_file_fills(tmp_path: Path, make: Any, serve: Any, visit: Any) -> None:
    path = make.write(tmp_path / "run.jsonl", [])
    with serve(path) as url:
        visitor = visit(url)
        visitor.page.get_by_text("No episode is in this file yet.").wait_for()
        make.write(path, [make.record(0, 0, None), make.record(1, 0, None)], "a")
        found(visitor.page, "2 episodes")
        visitor.page.get_by_text("no episode has a reward yet").wait_for()
        visitor.went_nowhere(url.split("?")[0])


def test_records_of_odd_shapes_are_shown(tmp_path: Path, make: Any, serve: Any, visit: Any) -> None:
    """What a file of somebody's may hold beside what we write."""
    strange: list[dict[str, Any]] = [
        {"responses_create_params": {"input": "a text", "tools": [None, 3, {"function": {"name": 7}}]}},
        {
            "response": {
                "output": [3, None, "text", [], {}, {"type": 4}, {"type": "reasoning", "summary": "s", "content": 5}]
            }
        },
        {
            "response": {
                "output": [
                    {"type": "message", "role": "assistant", "content": [None, 3, {"text": 4}, {"refusal": "no"}]}
                ]
            }
        },
        {"response": {"output": [{"type": "function_call", "name": None, "arguments": {"a": 1}, "call_id": 3}]}},
        {
            "response": {
                "output": [{"type": "function_call_output", "call_id": None, "output": [{"text": "x"}, {"image": 1}]}]
            }
        },
        {"trajectory": [{"input_ids": [1, 2], "loss_mask": [1, 1]}, {"input_ids": None}, {}]},
        {"timing": {"total": 1e9, "engine": -1}, "turn_timing": [None, {"engine": "x"}, 3]},
        {"info": {"reward_components": {"a": "b", "c": 1e308}, "deep": [[[[[[[[1]]]]]]]], "none": None}},
        {"response": None, "trajectory": [], "task_fields": {"reward": 1}, "dataset": ""},
    ]
    path = make.write(tmp_path / "run.jsonl", [{**make.record(task), **each} for task, each in enumerate(strange)])
    with serve(path) as url:
        visitor = visit(url + "#sort=n")
        page = visitor.page
        found(page, f"{len(strange)} episodes")
        page.locator("tbody a").first.click()
        for number in range(len(strange)):
            page.locator("h1", has_text=re.compile(f"^(Task {number} repeat 0|line {number + 1})$")).wait_for()
            for key in ("t", "r", "c") if page.get_by_role("tab").count() else ():
                page.keyboard.press(key)
                page.locator(
                    f"[aria-selected=true]#tab-{dict(t='tokens', r='record', c='conversation')[key]}"
                ).wait_for()
            page.keyboard.press("j")
        assert page.get_by_role("alert").count() == 0
        visitor.went_nowhere(url.split("?")[0])


def test_a_line_that_is_no_record_says_so(tmp_path: Path, make: Any, serve: Any, visit: Any) -> None:
    path = make.write(tmp_path / "run.jsonl", [make.record(0), {"no": "record"}, make.record(2)])
    with serve(path) as url:
        page = visit(url).page
        page.locator("tbody").get_by_text("unreadable", exact=True).click()
        shows(page, "line 2")
        assert '{"no"' in page.locator(".failure").inner_text()
        page.keyboard.press("k")  # it is the last one: it has no task
        shows(page, "Task 2 repeat 0")


def test_without_its_token_the_page_shows_nothing(url: str, visit: Any) -> None:
    visitor = visit(url.split("?")[0])
    assert "token" in visitor.page.locator("body").inner_text()
    assert "Task" not in visitor.page.locator("body").inner_text()


def test_unseen_characters_are_seen(tmp_path: Path, make: Any, serve: Any, visit: Any) -> None:
    text = "a\u202eb\u200b\u200bc\x1b[31md\x00\u2066e\ufeff \U000e0041 👩\u200d👧 עברית"
    path = make.write(tmp_path / "run.jsonl", [make.record(0, 0, 1.0, make.said(text))])
    with serve(path) as url:
        page = visit(url + "#task=0").page
        message = page.locator(".message.assistant .said")
        message.wait_for()
        assert message.locator(".unseen").all_inner_texts() == [
            "U+202E",
            "U+200B×2",
            "␛",
            "␀",
            "U+2066",
            "U+FEFF",
            "U+E0041",
        ]
        assert message.locator(".unseen").first.get_attribute("title") == "U+202E right-to-left override"
        assert message.evaluate("element => getComputedStyle(element).unicodeBidi") == "isolate"
        assert "👩\u200d👧 עברית" in message.inner_text()


def longest_common(one: list[str], other: list[str]) -> int:
    lengths = [0] * (len(other) + 1)
    for first in one:
        row = [0]
        for j, second in enumerate(other):
            row.append(lengths[j] + 1 if first == second else max(row[j], lengths[j + 1]))
        lengths = row
    return lengths[-1]


def test_the_common_subsequence_is_a_longest_one(open_at: Any) -> None:
    choose = random.Random(1)
    pairs = [["".join(choose.choices("abc", k=choose.randrange(12))) for _ in range(2)] for _ in range(300)]
    page = open_at()
    script = """async (pairs) => {
        const { commonPairs } = await import("/static/lcs.js");
        return pairs.map(([one, other]) => commonPairs([...one], [...other]));
    }"""
    for (one, other), common in zip(pairs, page.evaluate(script, pairs), strict=True):
        assert [one[i] for i, _ in common] == [other[j] for _, j in common]
        assert common == sorted(common)
        assert len({i for i, _ in common}) == len({j for _, j in common}) == len(common)
        assert len(common) == longest_common(list(one), list(other))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast(open_at: Any, scheme: str) -> None:
    """At least 4.5 to 1, as WCAG asks of small texts."""
    page = open_at(color_scheme=scheme)
    names = ("ink", "muted", "accent", "bad", "paper", "card", "sunk", "accent-soft", "bad-soft", "mark-in", "mark-out")
    script = (
        "names => names.map((name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim())"
    )
    colours = dict(zip(names, page.evaluate(script, names), strict=True))

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for text, grounds in {
        "ink": ("paper", "card", "sunk", "accent-soft", "bad-soft", "mark-in", "mark-out"),
        "muted": ("paper", "card", "sunk", "accent-soft"),
        "accent": ("paper",),
        "bad": ("card", "paper", "bad-soft"),
    }.items():
        for ground in grounds:
            light, dark = sorted((luminance(colours[text]), luminance(colours[ground])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, ground)


@pytest.mark.parametrize("fragment", ["", "#run=0&task=3&repeat=1", "#run=0&task=3&repeat=1&tab=diff"])
def test_everything_that_can_be_used_has_a_name_and_shows_its_focus(open_at: Any, fragment: str) -> None:
    page = open_at(fragment)
    nameless = """() => [...document.querySelectorAll("button, a, input, select, summary, [tabindex], svg[role]")]
        .filter((each) => each.checkVisibility() && !each.matches("main, [aria-hidden] *"))
        .filter((each) => !(each.getAttribute("aria-label") || each.innerText?.trim() || each.labels?.length))
        .map((each) => each.outerHTML)"""
    assert page.evaluate(nameless) == []
    for _ in range(6):
        page.keyboard.press("Tab")
        shown = "() => [document.activeElement.outerHTML, getComputedStyle(document.activeElement).outlineStyle]"
        focused, outline = page.evaluate(shown)
        assert outline != "none" or focused.startswith("<body"), focused  # behind the last one


@pytest.fixture(scope="module")
def exported(files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    from gym_llm.evaluation.view.static_page import export_page

    page = tmp_path_factory.mktemp("page") / "report.html"
    with ThreadPoolExecutor() as pool:  # this thread's event loop is Playwright's
        pool.submit(asyncio.run, export_page(files, page, max_episodes=300)).result()
    return page.as_uri()


def test_an_exported_page_does_the_same_from_disk(exported: str, visit: Any) -> None:
    visitor = visit(exported)
    page = visitor.page
    found(page, "90 episodes")
    assert page.locator(".card").count() == 3
    choose_column(page, "judge_score")
    page.locator("[data-sort=judge_score]").click()
    page.locator("[data-sort=reward]").click()
    page.locator("th[aria-sort=ascending] [data-sort=reward]").wait_for()
    page.get_by_role("searchbox").fill("NEEDLE3")
    found(page, "3 of 90 episodes")
    page.get_by_role("button", name=re.compile("with a reward from 0 ")).click()
    found(page, "1 of 90 episodes")
    page.get_by_role("button", name="Clear").click()
    found(page, "90 episodes")
    page.locator(".grid canvas").click(position={"x": 5, "y": 19})
    shows(page, "Task 0 repeat 0")
    page.evaluate("location.hash = '#run=0&task=3&repeat=1'")
    shows(page, "Task 3 repeat 1")
    assert page.locator(".call").count() == 2
    page.keyboard.press("d")
    page.locator(".added").first.wait_for()
    page.go_back()
    page.evaluate("location.hash = '#run=0&task=7&repeat=0&tab=tokens'")
    page.locator(".segment").first.wait_for()
    assert page.locator(".segment").first.locator(".sampled .token").all_text_contents() == ["21", "22", "23"]
    page.keyboard.press("Escape")
    page.locator(".card").nth(2).click()
    page.get_by_text("of all.").wait_for()
    page.reload()
    page.locator(".found").wait_for()
    visitor.went_nowhere(exported)
