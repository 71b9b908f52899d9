"""Search: questions that are answered with a search engine (NeMo Gym's `google_search` and `tavily_search`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import model_validator

from gym_llm import BaseTask, Episode, Metric, Verdict, tool
from gym_llm.envs.search.backends import OWN_DOCUMENTS, SERVICES, Backend, open_backend
from gym_llm.envs.search.bm25 import Found, as_google
from gym_llm.envs.search.fetching import BadURL
from gym_llm.envs.search.pages import around, as_results, excluded, excluded_domains, scrolled, shortened
from gym_llm.grading.answer_lines import last_answer_line
from gym_llm.grading.answers import last_boxed
from gym_llm.grading.choices import ANY_LETTER, boxed_choice
from gym_llm.grading.extraction import flat_boxes
from gym_llm.grading.markup import without_emphasis
from gym_llm.grading.quotations import meant_words
from gym_llm.judge import JudgedEnv
from gym_llm.judge.verdicts import yes_no_line
from gym_llm.types import Row

_ANSWER = re.compile(r"Answer:\s{0,20}([^\n]{0,1000}?)\s{0,20}Confidence:", re.IGNORECASE)
_FIRST_CORRECT = re.compile(r"correct: (yes|no)")
_MOST_QUERY = 400


class Reader(NamedTuple):
    """Searches and reads, but for what is excluded."""

    backend: Backend
    excluded: frozenset[str]

    async def search(self, query: str) -> list[Found]:
        """The best results."""
        return [each for each in await self.backend.search(query) if not excluded(each.url, self.excluded)]

    async def page(self, url: str) -> tuple[str, str]:
        """Return a page's text, or an error message for the model."""
        if excluded(url, self.excluded):
            return "", "URL is in excluded domains"
        try:
            text = await self.backend.page(url)
        except BadURL as error:
            return "", f"Error: {error}"
        return (text, "") if text else ("", "No text found")


class Search(JudgedEnv):
    r"""Search and read, then answer: a row's letter in `\boxed{}`, or its short answer, which a judge compares.

    Details: `parsed_option` for a letter. For a short answer, `num_tool_calls` and `extracted_final_answer`: the
        judge's yes
    or no, or without a judge the answer's text.

    Args:
        backend: `local:PATH` searches files (a folder, or JSON Lines of documents), by default a few of our own.
            `google` asks Google's Custom Search, with GOOGLE_API_KEY and GOOGLE_CX in the environment. `tavily` asks
            Tavily, with TAVILY_API_KEY.
        exclude_domains_file_path: JSON in the format of Tavily's server: `notices[].properties[]` of `type` `domain`.
            These domains and their subdomains are excluded.
        use_judge: Whether a judge compares short answers; None: if a judge is given. Without a judge, the text between
            `Answer:` and `Confidence:` must equal the expected one.
        allow_private: Whether the model may open pages of machines that are not on the public internet.
        **kwargs: As for every `JudgedEnv`.

    Raises:
        ValueError: If an argument is invalid, or a service's key is not in the environment.
    """

    reverify_mode = "stateless"
    judge_required = False
    metrics = {"num_tool_calls": Metric(higher_is_better=None)}

    class Task(BaseTask):
        """The right letter, or the question and its right answer."""

        expected_answer: str | None = None
        ground_truth: str | None = None
        question: str = ""

        @model_validator(mode="after")
        def _answerable(self) -> Search.Task:
            if (self.expected_answer is None) == (self.ground_truth is None):
                raise ValueError("a row has expected_answer (a letter) or ground_truth (a short answer), one of them")
            return self

    def __init__(
        self,
        tasks: str | list[Row] | None = None,
        *,
        backend: str = f"local:{OWN_DOCUMENTS}",
        exclude_domains_file_path: str | None = None,
        use_judge: bool | None = None,
        allow_private: bool = False,
        **kwargs: Any,
    ) -> None:
        if not isinstance(backend, str) or not (backend in SERVICES or backend.startswith("local:")):
            raise ValueError(f"backend is local:PATH, {' or '.join(SERVICES)}; got {backend!r}.")
        if use_judge and kwargs.get("judge") is None:
            raise ValueError('use_judge needs a judge: give judge="http://HOST:PORT/v1".')
        if backend in SERVICES:
            SERVICES[backend](allow_private=allow_private)  # its keys are there
        elif not Path(path := backend.removeprefix("local:")).exists():
            raise ValueError(f"backend names a folder or a file of documents; there is no {path}.")
        super().__init__(tasks, **kwargs)
        self.backend = backend
        self.exclude_domains_file_path = exclude_domains_file_path
        self._excluded = excluded_domains(exclude_domains_file_path)
        self.use_judge = self.judge is not None if use_judge is None else use_judge
        self.allow_private = allow_private

    async def setup(self, task: Task) -> Reader:
        """The state of the tools."""
        spec, private = self.backend, self.allow_private
        backend: Backend = await self.shared(("search", spec, private), lambda: open_backend(spec, private))
        return Reader(backend, self._excluded)

    @tool
    async def search(self, state: Reader, query: str) -> dict[str, str]:
        """Search for pages; up to ten results, as JSON.

        Args:
            query: What to search for.
        """
        return {"search_results": as_google(await state.search(query[:_MOST_QUERY]))}

    @tool
    async def browse(self, state: Reader, url: str) -> dict[str, str]:
        """Read a page; of a very long one its beginning and its end.

        Args:
            url: The page's address.
        """
        text, problem = await state.page(url)
        return {"page_content": problem or shortened(text)}

    @tool
    async def web_search(self, state: Reader, query: str) -> dict[str, str]:
        """Search for pages; up to ten results with summaries.

        Args:
            query: What to search for, 400 characters at most.
        """
        if len(query) > _MOST_QUERY:
            return {"results_string": "Query is too long"}
        return {"results_string": as_results(await state.search(query))}

    @tool
    async def find_in_page(self, state: Reader, url: str, query: str) -> dict[str, str]:
        """Read what a page says about something.

        Args:
            url: The page's address.
            query: What to look for in it.
        """
        text, problem = await state.page(url)
        return {"results_string": problem or around(url, query[:_MOST_QUERY], text)}

    @tool
    async def scroll_page(self, state: Reader, url: str, start_index: int = 0, n: int = 2000) -> dict[str, Any]:
        """Read a part of a page.

        Args:
            url: The page's address.
            start_index: The number of the first word to read.
            n: How many words to read.
        """
        text, problem = await state.page(url)
        if problem:
            return {"results_string": problem, "total_words": 0}
        results, total = scrolled(url, text, start_index, n)
        return {"results_string": results, "total_words": total}

    def oracle(self, task: Task) -> str:
        """Return the letter in a box, or the short answer as it is read without a judge."""
        if task.expected_answer is not None:
            return f"\\boxed{{{task.expected_answer}}}"
        return f"Answer: {task.ground_truth} Confidence: 100%"

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the letter, or have the judge compare the answer."""
        if task.expected_answer is not None:
            option = (
                _option_as_nemo_gym(episode) if self.conform else _option(meant_words(episode.last_message, episode))
            )
            return Verdict(float(option == task.expected_answer), {"parsed_option": option})
        text = episode.text if self.conform else meant_words(episode.text, episode)
        extracted = await self._compare(task, text)
        details = {"extracted_final_answer": extracted, "num_tool_calls": sum(1 for _ in episode.function_calls())}
        return Verdict(float(extracted == ("yes" if self.use_judge else task.ground_truth)), details)

    async def _compare(self, task: Task, text: str) -> str:
        if not self.use_judge:
            if self.conform:
                answers = _ANSWER.findall(text)
                return answers[-1].strip() if answers else ""
            stated, confidence, _ = text.rpartition("Confidence:")
            line = last_answer_line(stated) if confidence else None
            return without_emphasis(line).strip("*_ ") if line else ""
        if not text.strip() and not self.conform:
            return "no"
        values = {"question": task.question, "correct_answer": task.ground_truth, "response": text}
        if self.conform:
            return str((await self.ask(values, _first_correct, unparsable="")).value)
        return "yes" if (await self.ask(values, yes_no_line("correct:"))).value else "no"


def _option(text: str) -> str | None:
    return boxed_choice(text, ANY_LETTER) or (last_boxed(text) or "").strip() or None


def _first_correct(text: str) -> Literal["yes", "no"] | None:
    match = _FIRST_CORRECT.search(text)
    return match[1] if match else None  # type: ignore[return-value]


def _option_as_nemo_gym(episode: Episode) -> str | None:
    item = episode.items[-1] if episode.items else {}
    if item.get("type", "message") != "message" or item.get("role") != "assistant":
        return None
    return next(flat_boxes(repr(item.get("content"))), None)
