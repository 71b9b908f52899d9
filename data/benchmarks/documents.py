"""Questions about documents: finance, long contexts, long memories."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypedDict

from gym_llm.data.files.conversion import QUESTION, messages, options, uuid_of
from gym_llm.data.recipes.recipe import Benchmark, Source
from gym_llm.data.recipes.token_counts import count_tokens
from gym_llm.types import Row
from gym_llm.utils.json_codec import loads

_FACTS = "NeMo Gym 07d6b0d, benchmarks/{}"
_BOXED = {"grading_mode": "strict_single_letter_boxed"}


def finance(row: dict[str, Any]) -> Row:
    """Join the pieces of evidence, the whole page where there is one."""
    texts = []
    for number, piece in enumerate(row.get("evidence") or [], 1):
        if isinstance(piece, dict):
            piece = piece.get("evidence_text_full_page") or piece.get("evidence_text") or ""
        if isinstance(piece, str) and piece:
            texts.append(f"[Evidence {number}]\n{piece}")
    name = row["financebench_id"]
    return {
        "uuid": uuid_of(f"financebench/{name}"),
        "question": row["question"],
        "expected_answer": row["answer"],
        "context": "\n\n".join(texts),
        "financebench_id": name,
        "company": row.get("company", ""),
        "doc_name": row.get("doc_name", ""),
        "question_type": row.get("question_type") or "unknown",
        "question_reasoning": row.get("question_reasoning") or "unknown",
    }


def filings(row: dict[str, Any]) -> Row:
    """Name the columns as `EquivalenceLLMJudge` does."""
    return {
        "uuid": uuid_of(f"secque/{row['QID']}"),
        "question": row["Question"],
        "expected_answer": row["ground_truth_answer"],
        "context": row.get("context_markdown_with_headers", ""),
        "qid": row["QID"],
        "question_type": row.get("question_type", "unknown"),
    }


def filing_search(row: dict[str, Any]) -> Row:
    """Offer the tools of the benchmark's harness."""
    harness = loads((Path(__file__).parent / "texts" / "finance_sec_search.json").read_bytes())
    message = {"role": "user", "content": harness["prompt"] + row["Question"], "type": "message"}
    task: Row = {
        "question": row["Question"],
        "expected_answer": row["Answer"],
        "responses_create_params": {"input": [message], "tools": harness["tools"]},
    }
    columns = {"question_type": "Question Type", "expert_time_mins": "Expert time (mins)", "rubric": "Rubric"}
    return task | {name: row[column] for name, column in columns.items() if row.get(column)}


_KEPT_SESSIONS = 50


def memory(row: dict[str, Any]) -> Row:
    """Show the last 50 sessions by date, without the marks of where the answer is."""
    sessions = list(zip(row.get("haystack_dates") or [], row.get("haystack_sessions") or [], strict=False))
    history = "".join(
        f"\n### Session {number}:\nSession Date: {date}\nSession Content:\n\n{json.dumps(_unmarked(session))}\n"
        for number, (date, session) in enumerate(sorted(sessions[-_KEPT_SESSIONS:], key=lambda pair: pair[0]), 1)
    )
    about = {name: str(row.get(name) or "") for name in ("question_id", "question_type", "question", "answer")}
    date = str(row.get("question_date") or "")
    text = (
        "I will give you several history chats between you and a user. Please answer the question based on the "
        "relevant "
        f"chat history.\n\n\nHistory Chats:\n\n{history}\n\nCurrent Date: {date}\nQuestion: "
        f"{about['question']}\nAnswer:"
    )
    return {
        "responses_create_params": messages(text),
        "verifier_metadata": {
            **about,
            "question_date": date,
            "abstention": "_abs" in about["question_id"],
            "split": "oracle",
            "topk_context": _KEPT_SESSIONS,
        },
        "agent_ref": {"type": "responses_api_agents", "name": "longmemeval_benchmark_simple_agent"},
    }


def _unmarked(session: Any) -> Any:
    if not isinstance(session, list):
        return session
    return [
        {name: value for name, value in turn.items() if name != "has_answer"} if isinstance(turn, dict) else turn
        for turn in session
    ]


_BANDS = ((80_000, "<80k"), (100_000, "80k-100k"), (110_000, "100k-110k"), (128_000, "110k-128k"))
_MOJIBAKE = (("'", "ΓÇÖ"), ("’", "ΓÇÖ"), ("‘", "ΓÇÖ"), ("—", "ΓÇö"), ("–", "ΓÇô"), ("ş", "s╠º"))
"""The archive's file names were written with another encoding."""


def long_reports(tables: Mapping[str, list[Row]]) -> Iterator[Row]:
    """Put all of a question's documents before it."""
    texts = {row["_member"]: row["text"] for row in tables["documents"]}
    for row in tables["questions"]:
        documents = []
        for number, name in enumerate(row["data_source_filenames"].split(";"), 1):
            path = f"lcr/{row['document_category']}/{row['document_set_id']}/{name}"
            for clean, written in _MOJIBAKE:
                path = path.replace(clean, written)
            documents.append(f"BEGIN DOCUMENT {number}:\n{texts[path]}\nEND DOCUMENT {number}")
        prompt = (
            "BEGIN INPUT DOCUMENTS\n\n"
            + "\n\n".join(documents)
            + "\n\nEND INPUT DOCUMENTS\n\nAnswer the following question "
            f"using the input documents provided above.\n\nSTART QUESTION\n\n{row['question']}\n\nEND QUESTION\n"
        )
        kept = [
            "document_category",
            "document_set_id",
            "question_id",
            "question",
            "answer",
            "data_source_filenames",
            "data_source_urls",
            "input_tokens",
        ]
        band = next((name for least, name in _BANDS if row["input_tokens"] < least), "128k+")
        yield {
            "responses_create_params": messages(prompt),
            **{name: row[name] for name in kept},
            "input_tokens_band": band,
        }


class LongChoice(TypedDict):
    """A long text, a question about it, and four options."""

    _id: str
    context: str
    question: str
    choice_A: str
    choice_B: str
    choice_C: str
    choice_D: str
    answer: str
    domain: str
    sub_domain: str
    difficulty: str
    length: str


def long_choice(row: LongChoice) -> Row:
    """Count the context's tokens."""
    choices: dict[str, Any] = {f"choice_{letter}": row[f"choice_{letter}"] for letter in "ABCD"}  # type: ignore[literal-required]
    about = {name: row[name] for name in ("domain", "sub_domain", "difficulty", "length")}  # type: ignore[literal-required]
    return {
        "index": row["_id"],
        "context": row["context"],
        "question": row["question"],
        **choices,
        "expected_answer": row["answer"],
        **about,
        "context_tokens": count_tokens(row["context"]),
        "options": options({name[-1]: text for name, text in choices.items()}),
        **_BOXED,
    }


_FORMAT = (
    "\n\nThe last line of your response should be in the following format: 'Answer: \\boxed{A/B/C/D}' "
    "(e.g. 'Answer: \\boxed{A}')."
)


def long_code(row: dict[str, Any]) -> Row:
    """Ask for a letter in a box; the options stand in the prompt."""
    question = row["prompt"].strip() + _FORMAT
    return {
        "question": question,
        "options": options(dict.fromkeys("ABCD", "")),
        "expected_answer": row["correct_letter"],
        **_BOXED,
        "uuid": uuid_of(question),
        "repo": row["repo"],
        "prompt_goal": row["prompt_goal"],
        "is_hard": row["is_hard"],
        "n_tokens": count_tokens(question),
    }


_BFS = re.compile(r"Perform a BFS from node (\S+) with depth (\d+)")
_EXACT = r"Perform a BFS from node \1 and return only the nodes at exactly depth \2 (not nodes at intermediate depths)"
_PARENTS = re.compile(r"Find the parents of node ([^\s.]+)\.")


def graph_walk(row: dict[str, Any]) -> Row:
    """Say that only the last depth counts; a node is not its own parent."""
    prompt = _BFS.sub(_EXACT, row["prompt"])
    nodes = list(row["answer_nodes"])
    asked = _PARENTS.search(prompt)
    if asked and asked[1] in nodes:
        nodes.remove(asked[1])
    return {
        "responses_create_params": messages(prompt),
        "expected_answer": json.dumps(sorted(nodes)),
        "problem_type": row["problem_type"],
        "n_tokens": count_tokens(prompt),
        "prompt_chars": row["prompt_chars"],
    }


def coreference(row: dict[str, Any]) -> Row:
    """Read the conversation, which the dataset keeps as JSON text."""
    conversation = json.loads(row["prompt"])
    return {
        "responses_create_params": {"input": conversation},
        "expected_answer": row["answer"],
        "random_string_to_prepend": row["random_string_to_prepend"],
        "n_needles": row["n_needles"],
        "n_tokens": sum(count_tokens(message["content"]) for message in conversation),
    }


def _at_most(convert: Any, field: str, tokens: int) -> Any:
    """A conversion that leaves out tasks of more tokens."""

    def short(row: Row) -> Row | None:
        task: Row = convert(row)
        return task if task[field] <= tokens else None

    short.__module__ = __name__
    return short


def _sizes(convert: Any, field: str) -> dict[str, dict[str, Any]]:
    return {
        name: {"convert": _at_most(convert, field, tokens)}
        for name, tokens in (("32k", 1 << 15), ("128k", 1 << 17), ("1m", 1_000_000))
    }


_EVIDENCE = (
    "Answer a question of finance from the evidence below alone. Be short and exact. If the evidence does not answer "
    "it, "
    "say so; do not guess.\n\nEvidence:\n{context}\n\nQuestion:\n{question}\n\nReason if it helps, then end with "
    "your final "
    'answer after "Answer:".'
)

BENCHMARKS = [
    Benchmark(
        name="financebench",
        title="FinanceBench: questions about filings, the evidence given",
        domain="finance",
        sources=(Source("PatronusAI/financebench", split="train"),),
        convert=finance,
        env_id="gym_llm/EquivalenceLLMJudge-v0",
        env_kwargs={"use_per_record_regex": False},
        prompt=_EVIDENCE,
        license="Creative Commons Attribution-NonCommercial 4.0 International",
        needs=("judge",),
        facts=_FACTS.format("financebench"),
        notes="Judged with the prompt of EquivalenceLLMJudge.",
    ),
    Benchmark(
        name="secque",
        title="SecQue: experts' questions about 10-K and 10-Q filings",
        domain="finance",
        sources=(Source("nogabenyoash/SecQue", split="train"),),
        convert=filings,
        env_id="gym_llm/EquivalenceLLMJudge-v0",
        env_kwargs={"use_per_record_regex": False},
        prompt=_EVIDENCE,
        license="MIT",
        needs=("judge",),
        facts=_FACTS.format("secque"),
        notes="Judged with the prompt of EquivalenceLLMJudge.",
    ),
    Benchmark(
        name="finance_sec_search",
        title="Vals' finance agent: questions to answer from EDGAR",
        domain="finance",
        sources=(Source("https://raw.githubusercontent.com/vals-ai/finance-agent/main/data/public.csv"),),
        convert=filing_search,
        needs=("judge", "search"),
        facts=_FACTS.format("finance_sec_search"),
    ),
    Benchmark(
        name="longmemeval",
        title="LongMemEval: what was said in earlier conversations (the sessions with the evidence)",
        domain="long_context",
        sources=(Source("xiaowu0162/longmemeval-cleaned", files=("longmemeval_oracle.json",)),),
        convert=memory,
        env_id="gym_llm/LongMemEval-v0",
        license="MIT",
        needs=("judge",),
        facts=_FACTS.format("longmemeval"),
    ),
    Benchmark(
        name="aalcr",
        title="AA-LCR: reasoning over several long reports",
        domain="long_context",
        sources=(
            Source(
                "ArtificialAnalysis/AA-LCR",
                files=("extracted_text/AA-LCR_extracted-text.zip",),
                label="documents",
                member="*.txt",
                shared=True,
            ),
            Source("ArtificialAnalysis/AA-LCR", split="test", label="questions"),
        ),
        convert=long_reports,
        joins=True,
        env_id="gym_llm/AALCR-v0",
        repeats=16,
        needs=("judge",),
        facts=_FACTS.format("aalcr"),
        aliases=("aa_lcr",),
    ),
    Benchmark(
        name="longbench_v2",
        title="LongBench v2: choices about texts of up to two million words",
        domain="long_context",
        sources=(Source("THUDM/LongBench-v2", split="train"),),
        convert=long_choice,
        env_id="gym_llm/MultipleChoice-v0",
        prompt="Read this text, then answer the question about it.\n\n<text>\n{context}\n</text>\n\nQuestion: "
        "{question}\n"
        "(A) {choice_A}\n(B) {choice_B}\n(C) {choice_C}\n(D) {choice_D}\n\nLet's think step by step. Choose the one "
        "likeliest answer. The last line of your response must have the form 'Answer: \\boxed{{A/B/C/D}}'.",
        license="Apache 2.0",
        rows=503,
        needs=("tokenizer",),
        facts=_FACTS.format("longbench_v2"),
        variants=_sizes(long_choice, "context_tokens"),
    ),
    Benchmark(
        name="longcodebench",
        title="LongCodeQA: choices about whole repositories",
        domain="long_context",
        sources=(Source("Steefano/LCB", files=("LongCodeQA.zip",)),),
        convert=long_code,
        env_id="gym_llm/MultipleChoice-v0",
        prompt=QUESTION,
        license="Creative Commons Attribution 4.0 International",
        needs=("tokenizer",),
        facts=_FACTS.format("longcodebench"),
        variants=_sizes(long_code, "n_tokens"),
    ),
    Benchmark(
        name="graphwalks",
        title="GraphWalks: breadth-first search and parents in a graph given as text",
        domain="long_context",
        sources=(Source("openai/graphwalks", split="train"),),
        convert=graph_walk,
        env_id="gym_llm/GraphWalks-v0",
        needs=("tokenizer",),
        facts=_FACTS.format("graphwalks"),
        variants=_sizes(graph_walk, "n_tokens"),
    ),
    Benchmark(
        name="mrcr",
        title="MRCR: the n-th of several similar answers in a long conversation",
        domain="long_context",
        sources=(Source("openai/mrcr", split="train"),),
        convert=coreference,
        env_id="gym_llm/MRCR-v0",
        repeats=4,
        needs=("tokenizer",),
        facts=_FACTS.format("mrcr"),
        variants=_sizes(coreference, "n_tokens"),
    ),
]
