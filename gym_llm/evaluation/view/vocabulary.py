"""The texts of token ids, from the tokenizer of the model that sampled them. Records have ids only; files stay so.

A tokenizer is looked for on this machine: the pocket model's in this package, a folder's, or one in the Hugging Face
cache. Nothing is downloaded, and of a tokenizer only the vocabulary is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from gym_llm.evaluation.view.index import RunIndex
from gym_llm.evaluation.view.run_facts import engine_of
from gym_llm.evaluation.view.run_files import read_summary

_LARGEST = 256 << 20
_MOST_IDS = 200_000
_NAME = re.compile(r"[\w.-]{1,96}(/[\w.-]{1,96})?")
_SCHEMES = ("vllm:", "transformers:", "pocket")


class Vocabulary(NamedTuple):
    """A tokenizer's pieces by id, as bytes, and the ids of special tokens."""

    pieces: dict[int, bytes]
    special: frozenset[int]


def pieces_of(run: RunIndex, records: Iterable[Any]) -> dict[str, Any]:
    """Return the pieces of the ids in some records of a run.

    Returns:
        `tokenizer` is its name. `pieces` has the bytes of each id, as a text of characters up to U+00FF. `special`
        lists the ids of special tokens. `missing` says which tokenizer is missing, and how to get it; else it is "".
    """
    ids: set[int] = set()
    names: list[str] = []
    for record in records:
        if isinstance(record, dict):
            _collect(record, ids)
            names += _names(read_summary(run.path) if not names else None, record)
    answer: dict[str, Any] = {"tokenizer": "", "pieces": {}, "special": [], "missing": ""}
    if not ids:
        return answer
    names = list(dict.fromkeys(filter(None, names)))
    for name in names:
        if (place := find_tokenizer(name)) is not None and (vocabulary := _vocabulary(place)) is not None:
            known = sorted(ids & vocabulary.pieces.keys())[:_MOST_IDS]
            pieces = {str(each): vocabulary.pieces[each].decode("latin-1") for each in known}
            return {**answer, "tokenizer": name, "pieces": pieces, "special": sorted(ids & vocabulary.special)}
    return {**answer, "tokenizer": names[0] if names else "", "missing": _missing(names)}


def find_tokenizer(name: str) -> Path | None:
    """Return the `tokenizer.json` of a model by its name or folder, if it is on this machine."""
    if name == "pocket":
        return Path(str(resources.files("gym_llm.engines.pocket"))) / "model" / "tokenizer.json"
    with suppress(OSError):  # the name may be too long for a path
        if (folder := Path(name)).is_dir():
            return _file(folder / "tokenizer.json")
    if not _NAME.fullmatch(name) or ".." in name:
        return None
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub") / f"models--{name.replace('/', '--')}"
    with suppress(OSError, UnicodeDecodeError):
        if re.fullmatch(r"[0-9a-f]{40}", revision := (cache / "refs" / "main").read_text("utf-8").strip()):
            return _file(cache / "snapshots" / revision / "tokenizer.json")
    with suppress(OSError):
        return next((found for each in cache.glob("snapshots/*/tokenizer.json") if (found := _file(each))), None)
    return None


def _missing(names: list[str]) -> str:
    if not names:
        return "The texts of the ids are unknown: neither the record nor the summary names a model."
    fix = f"`hf download {names[0]} tokenizer.json` gets it" if _NAME.fullmatch(names[0]) else "it has no folder here"
    return f"The texts of the ids are unknown: the tokenizer of {names[0]} is not on this machine; {fix}."


def _file(path: Path) -> Path | None:
    return path if path.is_file() and path.stat().st_size <= _LARGEST else None


def _names(summary: dict[str, Any] | None, record: dict[str, Any]) -> list[str]:
    """The names of the model that may have sampled a record's ids, the likeliest first."""
    dataset, response = record.get("dataset"), record.get("response")
    spec = engine_of(summary, dataset if isinstance(dataset, str) else "")
    settings = (summary or {}).get("settings")
    options = settings.get("engine_options") if isinstance(settings, dict) else None
    named = [options.get(name) for name in ("tokenizer", "model")] if isinstance(options, dict) else []
    if spec.startswith(_SCHEMES):
        named.append(spec.partition(":")[2] or spec)
    if isinstance(response, dict):
        named.append(response.get("model"))
    return [name for name in named if isinstance(name, str) and 0 < len(name) < 300 and name.isprintable()]


def _collect(record: dict[str, Any], ids: set[int]) -> None:
    response = record.get("response")
    output = response.get("output") if isinstance(response, dict) else None
    seats = record.get("seats")
    for seat in seats.values() if isinstance(seats, dict) else ():
        if isinstance(seat, dict):
            _collect({"trajectory": seat.get("trajectory")}, ids)
    for holder, names in (
        (record.get("trajectory"), ("input_ids",)),
        (output, ("prompt_token_ids", "generation_token_ids")),
    ):
        for each in holder if isinstance(holder, list) else ():
            for name in names if isinstance(each, dict) else ():
                if isinstance(listed := each.get(name), list):
                    ids.update(one for one in listed if type(one) is int)


def _vocabulary(place: Path) -> Vocabulary | None:
    with suppress(OSError):
        status = place.stat()
        return _read(place, status.st_mtime_ns, status.st_size)
    return None


@lru_cache(maxsize=4)
def _read(place: Path, _changed: int, _size: int) -> Vocabulary | None:
    """A tokenizer's vocabulary; None if the file is none."""
    try:
        tokenizer = orjson.loads(place.read_bytes())
        model = tokenizer["model"]
        listed = model["vocab"]
        pairs = listed.items() if isinstance(listed, dict) else ((piece, n) for n, (piece, *_) in enumerate(listed))
        how = _piece_reader(tokenizer)
        pieces = {number: how(piece) for piece, number in pairs if type(number) is int and isinstance(piece, str)}
        special = set()
        for added in tokenizer.get("added_tokens") or ():
            pieces[added["id"]] = added["content"].encode(errors="replace")
            if added.get("special"):
                special.add(added["id"])
        return Vocabulary(pieces, frozenset(special))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _piece_reader(tokenizer: dict[str, Any]) -> Any:
    """How a tokenizer's pieces become bytes: byte-level pieces, SentencePiece's, or WordPiece's."""
    kinds = set(
        re.findall(rb'"type":"(\w+)"', orjson.dumps([tokenizer.get("decoder"), tokenizer.get("pre_tokenizer")]))
    )
    if b"ByteLevel" in kinds:
        letters = _byte_letters()
        return lambda piece: (
            bytes(letters[each] for each in piece) if all(each in letters for each in piece) else piece.encode()
        )
    if b"WordPiece" in kinds:
        return lambda piece: (piece[2:] if piece.startswith("##") else f" {piece}").encode(errors="replace")

    def sentence_piece(piece: str) -> bytes:
        if match := re.fullmatch(r"<0x([0-9A-F]{2})>", piece):
            return bytes([int(match[1], 16)])
        return piece.replace("\u2581", " ").encode(errors="replace")

    return sentence_piece


@lru_cache(maxsize=1)
def _byte_letters() -> dict[str, int]:
    """The letters that stand for bytes in byte-level vocabularies (openai/gpt-2, `bytes_to_unicode`)."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [each for each in range(0x100) if each not in own]
    return {chr(each): each for each in own} | {chr(0x100 + n): each for n, each in enumerate(others)}
