"""Apparatus: the tools that run the experiments, and what a model reads about them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from gym_llm.core.tools import tool
from gym_llm.envs.newton_bench.laws import DOMAINS


class Laboratory(Protocol):
    """The part of an episode that runs experiments."""

    def measure(self, module: str, arguments: dict[str, Any]) -> Any:
        """Run an experiment."""


@dataclass(frozen=True)
class Apparatus:
    """A domain's apparatus.

    Attributes:
        title: The domain.
        yields: What `discovered_law` returns.
        law: Its parameters, in words.
        systems: What is measured, by system.
        required: Arguments of the tool that every experiment needs, with their meaning.
        optional: Further arguments; some systems do not use them.
    """

    title: str
    yields: str
    law: dict[str, str]
    systems: tuple[str, str, str]
    required: dict[str, str]
    optional: dict[str, str]


_STEPS = {"duration": "How long the run takes.", "time_step": "Time between two measurements."}
_POINTS = {"num_points": "How many points are measured (20)."}
_SPEED = {"initial_velocity": "Velocity at the start."}
_BODY = {"mass1": "Mass of the first body.", "mass2": "Mass of the second body.", "distance": "Their distance."}
_CHARGES = {"q1": "First charge.", "q2": "Second charge.", "distance": "Their distance."}
_WIRES = {"current1": "Current in the first wire.", "current2": "In the second wire.", "distance": "Their distance."}
_PLATE = {"k": "A constant of the material.", "A": "Area.", "delta_T": "Difference of temperature.", "d": "Thickness."}
_DECAY = {"N0": "Atoms at the start.", "lambda_constant": "A constant of the isotope.", "t": "Time."}
_LIGHT = {"I_0": "Intensity before the polariser.", "theta": "Angle to the polariser's axis, in radians (0 to pi/2)."}
_HEAT = {"m": "Mass.", "c": "A constant of the substance.", "delta_T": "Change of temperature."}

APPARATUS: dict[str, Apparatus] = {
    "m0_gravity": Apparatus(
        "the attraction of two bodies",
        "the magnitude of the force",
        _BODY,
        (
            "the force on the second body",
            "the second body's position and velocity on a line towards the first, which is fixed",
            "the second body's position and velocity in a plane around the first, which is fixed; "
            "it starts perpendicular to their distance",
        ),
        _BODY,
        {**_SPEED, **_STEPS},
    ),
    "m1_coulomb_force": Apparatus(
        "the force between two charges",
        "the magnitude of the force",
        _CHARGES,
        (
            "the force",
            "the velocity of the second charge over time, while both charges leak away exponentially",
            "the kinetic energy of the second charge over time, while both charges leak away exponentially",
        ),
        _CHARGES,
        {"m1": "Mass of the first charge.", "m2": "Mass of the second charge.", **_STEPS},
    ),
    "m2_magnetic_force": Apparatus(
        "the force between two parallel wires",
        "the magnitude of the force per length",
        _WIRES,
        (
            "the force per length",
            "the second wire's distance and velocity over time",
            "the second wire's distance and velocity in one period, while the first current alternates with 50 Hz",
        ),
        _WIRES,
        {"mass_wire": "Mass per length of the second wire.", **_SPEED, **_STEPS},
    ),
    "m3_fourier_law": Apparatus(
        "heat through a plate",
        "the power",
        _PLATE,
        (
            "the power",
            "temperatures through the plate, which fall by power / (k * A) per length",
            "heat fluxes through the plate, whose temperature falls exponentially",
        ),
        _PLATE,
        _POINTS,
    ),
    "m4_snell_law": Apparatus(
        "refraction of light",
        "the angle in the second medium, in degrees",
        {"n1": "Refractive index of the first medium.", "n2": "Of the second.", "angle1": "Incidence, in degrees."},
        (
            "the angle of refraction",
            "the angle of refraction, for given speeds of light (an index is 3e8 / speed)",
            "the angle after two refractions, through three layers",
        ),
        {"incidence_angle": "Angle of incidence in degrees."},
        {
            "refractive_index_1": "Index of the first medium.",
            "refractive_index_2": "Index of the second medium.",
            "refractive_index_3": "Index of the third medium.",
            "speed_medium1": "Speed of light in the first medium.",
            "speed_medium2": "Speed of light in the second medium.",
        },
    ),
    "m5_radioactive_decay": Apparatus(
        "the decay of an isotope",
        "the atoms that are left",
        _DECAY,
        (
            "the atoms that are left",
            "the activity over time, of which a detector sees 70 %",
            "the ratio of the atoms of two isotopes over time",
        ),
        {"t": "Time."},
        {
            "N0": "Atoms at the start.",
            "lambda_constant": "A constant of the isotope.",
            "N0a": "Atoms of the first isotope.",
            "N0b": "Atoms of the second isotope.",
            "lambda_a": "Constant of the first isotope.",
            "lambda_b": "Constant of the second isotope.",
            **_POINTS,
        },
    ),
    "m6_underdamped_harmonic": Apparatus(
        "a damped oscillator",
        "the angular frequency",
        {"k": "A constant of the spring.", "m": "Mass.", "b": "A constant of the damping."},
        (
            "the angular frequency",
            "the period (2 * pi / angular frequency)",
            "amplitudes over two periods; they decay with exp(-3 * time)",
        ),
        {"k_constant": "A constant of the spring.", "mass": "Mass.", "b_constant": "A constant of the damping."},
        {"initial_amplitude": "Amplitude at the start."},
    ),
    "m7_malus_law": Apparatus(
        "light through a polariser",
        "the intensity behind the polariser",
        _LIGHT,
        (
            "the intensity behind the polariser",
            "the ratio of the intensities behind and before the polariser",
            "how much the intensity has changed behind two polarisers at the same angle",
        ),
        _LIGHT,
        {},
    ),
    "m8_sound_speed": Apparatus(
        "sound in a gas",
        "the speed of sound",
        {"gamma": "Adiabatic index.", "T": "Temperature in K.", "M": "Molar mass."},
        (
            "the speed of sound",
            "the time of an echo from a wall",
            "the first two resonant lengths of a tube, with an end correction of 0.3 times its diameter",
        ),
        {"adiabatic_index": "Adiabatic index.", "temperature": "Temperature in K.", "molar_mass": "Molar mass."},
        {
            "distance": "Distance of the wall.",
            "driving_frequency": "Frequency of the source.",
            "tube_diameter": "Diameter of the tube.",
        },
    ),
    "m9_hooke_law": Apparatus(
        "a spring",
        "the potential energy",
        {"x": "Displacement."},
        (
            "the potential energy",
            "the kinetic energy at the rest position, plus 0.2 * x * velocity ** 2 that the air takes",
            "the largest velocity, of which exp(-x / 0.02) is left",
        ),
        {"x": "Displacement."},
        {"m": "Mass on the spring."},
    ),
    "m10_be_distribution": Apparatus(
        "the occupation of a mode of radiation",
        "the mean number of quanta",
        {"omega": "Angular frequency.", "T": "Temperature."},
        (
            "the mean number of quanta",
            "the spectral radiance at a frequency: quanta * frequency ** 3",
            "the power in a band of frequencies: the integral of quanta * frequency ** 3",
        ),
        {"temperature": "Temperature."},
        {
            "omega": "Angular frequency.",
            "probe_frequency": "Angular frequency at which the radiance is measured.",
            "center_frequency": "Middle of the band.",
            "bandwidth": "Width of the band.",
        },
    ),
    "m11_heat_transfer": Apparatus(
        "the heat that warms a substance",
        "the heat",
        _HEAT,
        (
            "the heat",
            "the powers that leave by conduction, convection and radiation: random shares of heat / (m * c / 100) "
            "after a loss of about 20 %",
            "how many bulbs of 1 W run on the difference to a substance whose constant is 0.7 to 1.2 times c, "
            "chosen at random: power is heat / (m * c / 100) after a loss of about 20 %",
        ),
        _HEAT,
        {},
    ),
}
SYSTEMS = ("vanilla_equation", "simple_system", "complex_system")


def prompt_of(module: str, system: str, noise_level: float) -> str:
    """Return the instructions of a task: the domain, the apparatus, and what is to be submitted."""
    about = APPARATUS[module]
    parameters = "\n".join(f"- `{name}`: {text}" for name, text in about.law.items())
    exact = "Measurements are exact." if noise_level == 0 else f"Measurements have noise of {noise_level:g} relative."
    return f"""You are a physicist in a universe whose laws differ from ours, in their form and in their constants. Find
the law of {about.title}, by experiments.

Each call of `run_experiment_{module}` runs one experiment. It returns {about.systems[SYSTEMS.index(system)]}. {exact}

Submit the law as a Python function in <final_law> and </final_law>, without anything else between them:

<final_law>
def discovered_law({", ".join(about.law)}):
    ...
    return ...
</final_law>

It returns {about.yields}. Its parameters are:
{parameters}

Keep this signature, even if a parameter has no influence. Define constants and import modules inside the function."""


def result_of(value: Any) -> Any:
    """Return a measurement as a JSON value; numbers that JSON does not have are null."""
    if isinstance(value, dict):
        return {name: result_of(each) for name, each in value.items()}
    if isinstance(value, list):
        return [result_of(each) for each in value]
    if isinstance(value, str | int):
        return value
    number = float(value)
    return number if math.isfinite(number) else None


def _experiment(module: str, about: Apparatus) -> Callable[..., Any]:
    def run(self: Any, state: Laboratory, **arguments: Any) -> Any:
        return state.measure(module, arguments)

    lines = "\n".join(f"    {name}: {text}" for name, text in {**about.required, **about.optional}.items())
    kinds: dict[str, Any] = dict.fromkeys(about.required, float)
    kinds.update({name: int | None if name == "num_points" else float | None for name in about.optional})
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(name, keyword, annotation=kind, **({} if name in about.required else {"default": None}))
        for name, kind in kinds.items()
    ]
    positional = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", "state")]
    run.__name__ = run.__qualname__ = f"run_experiment_{module}"
    run.__doc__ = f"Run an experiment on {about.title}.\n\nArgs:\n{lines}\n"
    run.__annotations__ = {**kinds, "state": Any}
    run.__signature__ = inspect.Signature([*positional, *parameters])  # type: ignore[attr-defined]
    return tool(run)  # type: ignore[no-any-return]


assert APPARATUS.keys() == DOMAINS.keys()
Experiments = type(
    "Experiments", (), {f"run_experiment_{name}": _experiment(name, about) for name, about in APPARATUS.items()}
)
"""The tools of all domains; a request offers that of its task."""
