"""VerifIF's instructions that only a judge can check, about style, language and situation, and their arguments."""

from __future__ import annotations

from gym_llm.grading.constraints.verifif import constraint
from gym_llm.judge import labels
from gym_llm.utils.text import did_you_mean

_COUNTED = ("relation",)

JUDGED: dict[str, tuple[str, ...]] = {
    "stylistic:tone_formality": ("tone_level",),
    "stylistic:emotional_tone": ("emotion_type",),
    "stylistic:politeness": ("politeness_degree",),
    "stylistic:descriptive_level": ("description_degree",),
    "stylistic:literary_style": ("style_type",),
    "stylistic:sentence_tone_consistency": ("tone_type",),
    "stylistic:voice": ("voice_type",),
    "stylistic:figurative_language": ("figure_type", *_COUNTED, "num_occurrences"),
    "stylistic:tone_transition": ("from_tone", "to_tone", "transition_position"),
    "stylistic:emotive_adjectives": (*_COUNTED, "num_adjectives"),
    "stylistic:sensory_detail": ("sense_type", *_COUNTED, "num_details"),
    "stylistic:rhythm_pattern": ("rhythm_type",),
    "linguistic:pragmatic_context": ("context_type",),
    "linguistic:speech_act": ("act_type",),
    "linguistic:syntactic_pattern": ("pattern_type",),
    "linguistic:grammatical_mood": ("mood_type",),
    "linguistic:morphological_form": ("form_type",),
    "linguistic:phonological_pattern": ("phonology_type",),
    "linguistic:sound_symbolism": (*_COUNTED, "num_symbolisms"),
    "situation:role_based": ("role_type",),
    "situation:task_specific": ("task_type",),
    "situation:audience_alignment": ("audience_type",),
    "situation:contextual_scenario": ("scenario_type",),
    "situation:perspective": ("perspective_type",),
    "situation:emotional_alignment": ("emotion_type",),
    "situation:cultural_context": ("culture_type", "adaptation_level"),
    "situation:temporal_context": ("time_frame",),
    "situation:environment_setting": ("environment_type",),
}


def question_of(name: str, arguments: dict[str, object]) -> str:
    """Return the question for the judge about an instruction.

    Raises:
        ValueError: If the instruction is unknown, or an argument is missing.
    """
    expected = JUDGED.get(name)
    if expected is None:
        known = [*JUDGED, *(one.name for one in constraint)]
        raise ValueError(f"VerifIF has no instruction {name!r}.{did_you_mean(name, known)}")
    if missing := [argument for argument in expected if arguments.get(argument) is None]:
        raise ValueError(f"{name}: {', '.join(missing)} missing")
    area, _, kind = name.partition(":")
    given = "; ".join(f"{argument.replace('_', ' ')}: {arguments[argument]}" for argument in expected)
    return f"Does the reply keep to this demand on its {kind.replace('_', ' ')} ({area}): {given}?"


def read_verdict(text: str) -> bool | None:
    """Which of `[[YES]]` and `[[NO]]` comes last; without either, a last line that is YES or NO."""
    verdict: bool | None = labels("[[YES]]", "[[NO]]")(text)
    if verdict is not None or "[[" in text:
        return verdict
    last = text.rstrip().rpartition("\n")[2].strip(" \t*_`.\"'").upper()
    return last == "YES" if last in ("YES", "NO") else None
