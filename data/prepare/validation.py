"""Checking a data set's rows: each against the Responses schema and its verifier's own `Task`, in worker processes."""

from __future__ import annotations

from typing import Any, NamedTuple

from gym_llm.core.tasks import RowKind
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.data.files.line_parsing import parse_line
from gym_llm.data.files.reading import too_long
from gym_llm.data.prepare.collate import RowTagger
from gym_llm.data.prepare.dataset_metrics import ChunkStatistics, RowStatistics
from gym_llm.data.prepare.tokens import input_text, load_tokenizer
from gym_llm.errors import BadRow, DataError
from gym_llm.records.failures import reason
from gym_llm.types import Row
from gym_llm.utils.json_codec import dumps
from gym_llm.utils.limits import ROW_BYTES, limit


def row_kind(verifier: type[VerifierEnv], kwargs: dict[str, Any]) -> RowKind:
    """Return the schema of an environment's rows: a `TaskKind`, unless each row names its own verifier (`Mixed`).

    Services that the environment needs for playing, such as a judge, need not be available.
    """
    try:
        return verifier(**{**verifier.dry_run_kwargs, **kwargs}).task_kind()
    except (TypeError, ValueError) as error:
        raise DataError(f"{verifier.__name__} cannot be made with {kwargs}: {error}") from None


class Chunk(NamedTuple):
    """Consecutive lines of a file."""

    first: int  # line number of the first one
    lines: list[bytes | None]  # `None` for a line that is too long to be read


class CheckedChunk(NamedTuple):
    """A chunk's statistics, faults and rows."""

    lines: int  # how many lines it has
    statistics: ChunkStatistics  # of its valid rows
    problems: list[tuple[int, str, str]]  # line number, reason and detail (`BadRow`) of the others
    output: bytes  # the rows as the collated file has them; empty if there are problems


class RowChecker:
    """Checks chunks, and counts tokens if a tokenizer is named; made once per data set in each worker.

    Rows that say themselves who plays them have no `tagger`.
    """

    def __init__(
        self, verifier: type[VerifierEnv], kwargs: dict[str, Any], tagger: RowTagger | None, tokenizer: str | None
    ) -> None:
        self._kind = row_kind(verifier, kwargs)
        self._tagger = tagger
        self._count_tokens = load_tokenizer(tokenizer)[1] if tokenizer is not None else None

    def __call__(self, chunk: Chunk) -> CheckedChunk:
        """Check a chunk's rows, count them, and give them their tags."""
        statistics = RowStatistics()
        problems: list[tuple[int, str, str]] = []
        output: list[bytes] = []
        texts: list[str] = []
        for number, line in enumerate(chunk.lines, chunk.first):
            try:
                if line is None:
                    raise BadRow(f"the line is {too_long(limit(ROW_BYTES))}")
                row = parse_line(line)
                filled = check_row(row, self._kind)
                if filled is not row:  # its prompt was
                    row, line = filled, dumps(filled)
            except BadRow as problem:
                problems.append((number, problem.reason, problem.detail))
                continue
            statistics.add(row)
            output.append(self._tagger.tag(line, row) if self._tagger else line.strip() + b"\n")
            if self._count_tokens:
                texts.append(input_text(row["responses_create_params"]))
        if self._count_tokens:
            statistics.add_tokens(map(self._count_tokens, texts))
        return CheckedChunk(len(chunk.lines), statistics.summary(), problems, b"" if problems else b"".join(output))


def check_row(row: dict[str, Any], kind: RowKind) -> Row:
    """Check a row against the Responses schema and its verifier's, and return it, its prompt filled.

    Raises:
        BadRow: With every wrong field.
    """
    try:
        return kind.prepare(row).row
    except DataError as error:
        raise BadRow(str(error)) from None
    except Exception as error:  # a validator of another package's Task may fail in any way; the row is at fault
        raise BadRow(f"the verifier's Task cannot read it: {reason(error)}") from None
