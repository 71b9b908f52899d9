"""Chemistry and genes: LITMUS, BunsenBench, MolDeTox, FukuyamaBench and AssayBench."""

from __future__ import annotations

import html
import json
import random
from collections.abc import Iterator, Mapping
from hashlib import sha256
from string import ascii_uppercase
from typing import Any

from gym_llm.data.files.conversion import QUESTION, messages
from gym_llm.data.recipes.recipe import Benchmark, Load, Source
from gym_llm.types import Row

_FACTS = "NeMo Gym 07d6b0d, benchmarks/{}"
_NEWER = "NeMo Gym 0.7.0, benchmarks/{}"
_DETOX, _DETOX_COMMIT = "MolDeTox/MolDeTox", "059e1926fa62a07c3f01afadadf72cce154cfb7f"
_EXAMPLES = (
    "https://raw.githubusercontent.com/NVIDIA-NeMo/Gym/07d6b0d07b22fcf530b4c211dae2ee23100428e4/benchmarks/"
    "litmus-bench/data/examples/{}_example.jsonl"
)


def molecule(row: dict[str, Any]) -> Row:
    """Keep the row; its answer is a whole number, which the hub's table shows as 3.0."""
    answer = row["expected_answer"]
    if answer != int(answer):
        raise ValueError(f"expected_answer is {answer!r}, not a whole number")
    return _own(row) | {"expected_answer": int(answer)}


def measured_molecule(row: dict[str, Any]) -> Row | None:
    """Leave out numbers without a rule: no prediction equals a measurement to the sixth digit."""
    return None if row["answer_type"] == "float" and not row.get("match") else _own(row)


def _own(row: Mapping[str, Any]) -> Row:
    """The row without the name of NeMo Gym's agent."""
    return {name: value for name, value in row.items() if name != "agent_ref"}


def _examples(name: str, convert: Any, repeats: int, tokens: int, rows: int | None = None) -> dict[str, Any]:
    return {
        "sources": (Source(_EXAMPLES.format(name)),),
        "convert": convert,
        "repeats": repeats,
        "sampling": {"max_output_tokens": tokens},
        "rows": rows,
        "notes": "NeMo Gym's example rows: the whole set is not public.",
    }


_PROMPT_VERSION = "bunsen_chem_mcq_xml_choice_v1"
_VERSION = "0.1.4"
_UPSTREAM = {
    "bunsen_bench_revision": f"v{_VERSION}",
    "bunsen_bench_config": "chemistry_mcq",
    "bunsen_bench_config_version": _VERSION,
}
_ABOUT = (
    *_UPSTREAM,
    *(f"source{part}" for part in ("", "_dataset", "_config", "_split", "_revision", "_record_id", "_row_index")),
    *("bunsen_id", "source_record_sha256", "canonical_problem_sha256", "bct_field", "bct_subfield"),
)


def chemistry_choice(row: dict[str, Any]) -> Row:
    """Shuffle the options by a seed of the id, and write them in tags."""
    choices = list(row["choices"])
    if choices.count(row["answer"]) != 1:
        raise ValueError(f"the answer of {row['bunsen_id']} is not exactly one of its choices")
    seed = sha256(f"{row['bunsen_id']}:{_PROMPT_VERSION}".encode()).digest()[:8]
    random.Random(int.from_bytes(seed, "big")).shuffle(choices)
    about = _UPSTREAM | {name: row[name] for name in _ABOUT if name in row}
    return {
        "question": row["question"],
        "options_text": "\n".join(
            ["<choices>", *(f"<choice>{html.escape(text, quote=False)}</choice>" for text in choices), "</choices>"]
        ),
        "options": [{letter: text} for letter, text in zip(ascii_uppercase, choices, strict=False)],
        "expected_answer": ascii_uppercase[choices.index(row["answer"])],
        "uuid": row["bunsen_id"],
        "metadata": about | {"prompt_version": _PROMPT_VERSION},
    }


_HARMLESS = (
    "You change molecules as little as needed to make them harmless. Give the whole harmless molecule as one SMILES "
    'string. End with a JSON object of this form and nothing after it: {"answer": "SMILES"}'
)


def detoxified(tables: Mapping[str, list[Row]]) -> Iterator[Row]:
    """Join each question with its toxic molecule, which the question has in its text only."""
    toxic = {int(row["orig_test_index"]): row["toxic_smiles"] for row in tables["molecules"]}
    for row in tables["questions"]:
        yield {
            "responses_create_params": messages(row["question"], _HARMLESS),
            "verifier_metadata": {
                "answer": row["answer"]["answer"],
                "scoring_mode": "smiles",
                "config": _EDIT,
                "task": "task3",
                "variant": "single",
                "endpoint": row["endpoint"],
                "dataset_name": row["dataset_name"],
                "toxic_smiles": toxic.get(int(row["source_index"])),
                "id": row["id"],
            },
        }


_EDIT = "task3_smiles_gen_single"
_MECHANISM = (
    "You predict mechanisms of organic reactions. Think of each step: where electrons come from and go to, which bonds "
    "form and break, and which atoms are charged. Then write the line `## Result` and a JSON list of all steps in a "
    'fenced block, the last one with the stable product: [{"step_id": 1, "product_smiles": "SMILES with dots between '
    'the products"}]'
)
_MECHANISMS = (
    "https://github.com/HaCTang/ReactionMechanismReasoning/archive/63bb79f912f0b2de593996b80ffeea894f6f1a59.tar.gz"
)


def mechanisms(tables: Mapping[str, list[Row]]) -> Iterator[Row]:
    """Join the files of each reaction: the mechanism, its checkpoints and the starting materials with atom maps."""
    folders: dict[str, dict[str, str]] = {}
    for row in [row for rows in tables.values() for row in rows]:
        folder, _, name = row["_member"].rpartition("/")
        folders.setdefault(folder.rpartition("/")[2], {})[name] = row["text"]
    for case, files in sorted(folders.items()):
        mechanism = json.loads(files["mechanism.json"])
        lines = [line for line in files["ckpt.txt"].splitlines() if line.strip(" ,")]
        mapped = json.loads(files.get("mapped_rxn.json", "{}")).get("mechanism_rxn") or [{"mapped_rxn": ""}]
        smiles = [each["smiles"] for each in mechanism["mechanism"][0]["reactants"] if each.get("smiles")]
        start = mapped[0]["mapped_rxn"].partition(">>")[0] or ".".join(smiles)
        parts = [_condition(each) for part in mechanism["reactions"] for each in part.get("conditions", [])]
        conditions = "\n".join(filter(None, parts))
        yield {
            "responses_create_params": messages(f"Starting materials:\n{start}\n\n{conditions}", _MECHANISM),
            "verifier_metadata": {
                "case_id": case,
                "case_set": case[0],
                "gt_pathway": [
                    {"step_id": step["mechanism_id"], "products": [each["smiles"] for each in step["products"]]}
                    for step in mechanism["mechanism"]
                ],
                "checkpoints": [[int(part) for part in line.split(",") if part.strip()] for line in lines],
                "lenient": True,
            },
        }


def _condition(part: Row) -> str:
    text, step = part.get("text") or part.get("smiles"), part.get("reaction_step")
    return (f"{part.get('role', '')}: {text}" + (f" (step {step})" if step else "")) if text else ""


def _tiers(letters: str, rows: int) -> dict[str, Any]:
    member = f"*/fukuyama_bench/mechanisms/[{letters}]*/*"
    return {"sources": (Source(_MECHANISMS, member=member, text=True, label=letters),), "rows": rows}


_SCREEN = (
    "In a screen, genes of {cell_line} cells, a {cell_type}, were perturbed with a {library_type} library "
    "({library_methodology}). The design was {experimental_setup}, over {duration}{condition_clause}.\n\nA gene is a "
    "hit if it {phenotype}, by this criterion: {significance_criteria}. Hits with {ranking_rationale} come first.\n\n"
    "Notes: {notes}\n\nName the 100 genes that are most likely hits, as HGNC symbols, the strongest first, with commas "
    "between them and nothing else: GENE1, GENE2, GENE3."
)


def screen(row: dict[str, Any], load: Load) -> Row | None:
    """Ask for the hits of a screen; those of other years are left out."""
    if load.label != "LaTest" and row["yearfold0"] != load.label:
        return None
    fields = dict(row) | {"phenotype": (row["phenotype"] or "").removesuffix(".")}
    return {
        "dataset_name": str(row["dataset_name"]),
        "split": load.label,
        "question": _SCREEN.format_map(fields),
        **{name: row.get(name) for name in ("cleaned_phenotype", "screen_category", "author", "source_id")},
        "num_genes": len(row["relevance_genes"]),
        "relevance_genes": list(row["relevance_genes"]),
        "relevance_scores": [float(score) for score in row["relevance_scores"]],
    }


def _screens(split: str, rows: int) -> dict[str, Any]:
    config = "LaTest" if split == "LaTest" else "biogrid"
    file = f"{config}/train-00000-of-00001.parquet"
    revision = "bc37bf8f4842b43abcd6e9f781423d478b9aee4b"
    return {"sources": (Source("Genentech/assaybench", files=(file,), label=split, revision=revision),), "rows": rows}


BENCHMARKS = [
    Benchmark(
        name="litmus_bench",
        title="LITMUS: properties of molecules, from their structure alone",
        domain="science",
        sources=(
            Source(
                "nvidia/Nemotron-RL-litmus-bench-v0.1",
                split="test",
                revision="dab852b1fd2085f60c49af85fcb7d58ead4bf1c1",
            ),
        ),
        convert=molecule,
        env_id="gym_llm/LitmusAgent-v0",
        repeats=5,
        sampling={"max_output_tokens": 131_072},
        rows=482,
        license="CC-BY-4.0",
        facts=_FACTS.format("litmus-bench"),
        aliases=("litmus",),
        variants={
            "tier12": _examples("litmus-tier12-paired", _own, 1, 16_384, 20) | {"needs": ("sandbox",)},
            **{
                f"adme_{part}": _examples(f"adme-tier5-{part}", measured_molecule, 5, 8_192)
                for part in ("direct", "analogue", "comparison")
            },
        },
    ),
    Benchmark(
        name="bunsenbench_chemistry_mcq",
        title="BunsenBench: chemistry with options, from several data sets",
        domain="science",
        sources=(Source("nvidia/bunsen-bench", config="chemistry_mcq", split="test", revision=f"v{_VERSION}"),),
        convert=chemistry_choice,
        env_id="gym_llm/BunsenBench-v0",
        prompt="{question}\n{options_text}\nGive the right choice in <choice></choice> tags, exactly as it is written "
        "above.",
        repeats=8,
        facts=_FACTS.format("bunsenbench_chemistry_mcq"),
        notes="The hub has a list of ids; its tools/reconstitute.py makes the rows, and gym_llm runs no code of a hub. "
        "Run it, write its rows to RAW.jsonl, then `gym-llm data convert bunsenbench_chemistry_mcq RAW.jsonl`.",
        aliases=("bunsenbench", "bunsen_bench"),
    ),
    Benchmark(
        name="moldetox",
        title="MolDeTox: the harmless molecule next to a toxic one, as SMILES",
        domain="science",
        sources=(
            Source(_DETOX, files=(f"MolDeTox_QA/test/test_{_EDIT}.jsonl",), label="questions", revision=_DETOX_COMMIT),
            Source(_DETOX, files=("toxicitycliff_test.csv",), label="molecules", revision=_DETOX_COMMIT),
        ),
        convert=detoxified,
        joins=True,
        env_id="gym_llm/MolDeTox-v0",
        license="Creative Commons Attribution 4.0 International",
        facts=_NEWER.format("moldetox"),
        notes="The system prompt is ours; the authors' tables H to K have theirs.",
    ),
    Benchmark(
        name="fukuyamabench",
        title="FukuyamaBench: mechanisms of organic reactions, step by step",
        domain="science",
        **_tiers("BC", 241),
        convert=mechanisms,
        joins=True,
        env_id="gym_llm/FukuyamaBench-v0",
        repeats=8,
        facts=_NEWER.format("fukuyamabench"),
        notes="Sets B and C. The system prompt is ours. The mechanisms are a textbook's, and their licence is unclear.",
        variants={letter: _tiers(letter, rows) for letter, rows in (("A", 78), ("B", 131), ("C", 110))},
    ),
    Benchmark(
        name="assaybench",
        title="AssayBench: the strongest hits of CRISPR screens, ranked",
        domain="science",
        **_screens("test", 334),
        convert=screen,
        env_id="gym_llm/AssayBench-v0",
        prompt=QUESTION,
        repeats=5,
        license="MIT",
        facts=_NEWER.format("assaybench"),
        notes="The question's wording is ours; the paper (arXiv:2605.10876) has another, and asks through DSPy.",
        variants={"validation": _screens("validation", 218), "LaTest": _screens("LaTest", 19)},
    ),
]
