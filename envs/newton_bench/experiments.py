"""Experiments: what the apparatus of each domain measures under a law.

An experiment gets the law, the arguments of the tool, and a function that adds noise: `noisy(value, floor)`. Where an
argument is missing, the apparatus has a default.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium.error import DependencyNotInstalled

from gym_llm.envs.newton_bench.laws import Law
from gym_llm.errors import ToolError

Noise = Callable[..., Any]
Arguments = Mapping[str, Any]
_SHOWN = 20  # points of a time series
_MOST_POINTS = 1_000
_FINE, _FINER = 1e-9, 1e-12


def _text(value: Any, form: str = ".6e") -> str:
    if isinstance(value, complex):
        raise ValueError("the measured value is not a real number")
    return f"{float(value):{form}}"


def _series(values: Any, form: str = ".6e") -> list[Any]:
    return [_series(each, form) if np.ndim(each) else _text(each, form) for each in values]


def _times(duration: float, time_step: float) -> np.ndarray:
    """The times of a run. Only the first twenty are measured, and none after them is computed."""
    steps = int(duration / time_step)
    return np.arange(min(steps, _SHOWN)) * time_step if steps > 0 else np.zeros(0)


def _points(arguments: Arguments) -> int:
    number = arguments.get("num_points", 20)
    if not 1 <= number <= _MOST_POINTS:
        raise ToolError(f"num_points is a number from 1 to {_MOST_POINTS:,}.")
    return int(number)


def _verlet(position: Any, velocity: Any, times: np.ndarray, step: float, acceleration: Any) -> tuple[Any, Any]:
    """Velocity Verlet: positions and velocities at these times."""
    position, velocity = np.float64(position), np.float64(velocity)  # which become infinite where a float raises
    positions, velocities = [position], [velocity]
    for index in range(1, len(times)):
        old = acceleration(position, times[index - 1])
        position = position + velocity * step + 0.5 * old * step**2
        velocity = velocity + 0.5 * old * step + 0.5 * acceleration(position, times[index - 1]) * step
        positions.append(position)
        velocities.append(velocity)
    return np.array(positions), np.array(velocities)


# -- bodies and charges ------------------------------------------------------------------------------------------------


def _moved(times: np.ndarray, positions: Any, velocities: Any, noisy: Noise, form: str = ".3e") -> dict[str, Any]:
    if not len(times):
        return {"time": [], "position": [], "velocity": []}
    measured = {"position": _series(noisy(positions, _FINE)), "velocity": _series(noisy(velocities, _FINE))}
    return {"time": _series(times, form), **measured}


def _fall(law: Law, given: Arguments, noisy: Noise) -> dict[str, Any]:
    """A body that falls along a line towards a fixed one."""
    step = given.get("time_step", 0.01)
    times = _times(given.get("duration", 5.0), step)

    def acceleration(position: float, _: float) -> float:
        force = law(given["mass1"], given["mass2"], abs(position)) * np.sign(position)
        return -force / given["mass2"]

    moved = _verlet(given["distance"], given.get("initial_velocity", 0.0), times, step, acceleration)
    return _moved(times, *moved, noisy)


def _orbit(law: Law, given: Arguments, noisy: Noise) -> dict[str, Any]:
    """A body that moves in a plane around a fixed one."""
    step = given.get("time_step", 0.1)
    times = _times(given.get("duration", 10.0), step)

    def acceleration(position: np.ndarray, _: float) -> np.ndarray:
        distance = np.linalg.norm(position)
        if distance == 0:
            return np.zeros(2)
        if given["mass1"] == 0:
            raise ZeroDivisionError("mass1 is 0")
        force = law(given["mass1"], given["mass2"], distance)
        return -(force / given["mass2"]) * (position / distance)

    begin = np.array([given["distance"], 0.0])
    moved = _verlet(begin, np.array([0.0, given.get("initial_velocity", 0.0)]), times, step, acceleration)
    return _moved(times, *moved, noisy)


def _leaking(law: Law, given: Arguments, step: float, duration: float) -> tuple[np.ndarray, np.ndarray]:
    """Times and velocities of the second of two charges that leak away."""
    times = _times(duration, step)
    mass = given.get("m2", 1.0)
    position, velocity, velocities = np.float64(given["distance"]), np.float64(0.0), []
    for index, time in enumerate(times):
        one, other = given["q1"] * np.exp(-time / 10.0), given["q2"] * np.exp(-time / 5.0)
        force = law(abs(one), abs(other), abs(position)) * (1 if one * other > 0 else -1)
        if index:
            velocity = velocity + force / mass * step
            position = position + velocity * step
        velocities.append(velocity)
    return times, np.array(velocities)


def _charge_speed(law: Law, given: Arguments, noisy: Noise) -> dict[str, Any]:
    times, velocities = _leaking(law, given, given.get("time_step", 0.01), given.get("duration", 5.0))
    if not len(times):
        return {"time": [], "position": [], "velocity": []}
    return {"time": _series(times, ".3e"), "velocity": _series(noisy(velocities, _FINE))}


def _charge_energy(law: Law, given: Arguments, noisy: Noise) -> dict[str, Any]:
    times, velocities = _leaking(law, given, given.get("time_step", 0.1), given.get("duration", 10.0))
    if not len(times):
        return {"time": [], "position": [], "velocity": [], "kinetic_energy": []}
    energies = 0.5 * given.get("m2", 1.0) * velocities**2
    return {"time": _series(times, ".3e"), "kinetic_energy": _series(noisy(energies, _FINE))}


def _wires(law: Law, given: Arguments, mass: float) -> Callable[[float, float, float], float]:
    def acceleration(current1: float, current2: float, distance: float) -> float:
        if mass == 0 or distance == 0:
            return 0.0
        pull = law(abs(current1), abs(current2), abs(distance)) / mass
        return -pull if np.sign(current1) == np.sign(current2) else pull

    return acceleration


def _free_wire(law: Law, given: Arguments, noisy: Noise) -> dict[str, Any]:
    step = given.get("time_step", 0.05)
    times = _times(given.get("duration", 1.0), step)
    pull = _wires(law, given, given.get("mass_wire", 1.0))
    moved = _verlet(
        given["distance"],
        given.get("initial_velocity", 0.0),
        times,
        step,
        lambda distance, _: pull(given["current1"], given["current2"], distance),
    )
    return _moved(times, *moved, noisy)


def _alternating_wire(law: Law, given: Arguments, noisy: Noise) -> dict[str, Any]:
    """One period of an alternating current of 50 Hz in the first wire."""
    period = 1.0 / 50.0
    times = np.linspace(0, period, _SHOWN)
    pull = _wires(law, given, given.get("mass_wire", 0.01))

    def acceleration(distance: float, time: float) -> float:
        return pull(given["current1"] * np.sin(2 * np.pi * 50.0 * time), given["current2"], distance)

    start = given.get("initial_velocity", 0.0)
    moved = _verlet(given["distance"], start, times, period / (_SHOWN - 1), acceleration)
    return _moved(times, *moved, noisy, ".6e")


# -- heat and light ----------------------------------------------------------------------------------------------------


def _temperatures(law: Law, given: Arguments, noisy: Noise) -> dict[str, Any]:
    k, area, difference, depth = (given[name] for name in ("k", "A", "delta_T", "d"))
    places = np.linspace(0, depth, _points(given))
    temperatures = difference - law(k, area, difference, depth) / (k * area) * places
    return {"x": _series(places), "T": _series(noisy(temperatures, _FINE))}


def _heat_flux(law: Law, given: Arguments, noisy: Noise) -> dict[str, Any]:
    k, area, difference, depth = (given[name] for name in ("k", "A", "delta_T", "d"))
    places = np.linspace(0, depth, _points(given))
    temperatures = difference * np.exp(-places * law(k, area, difference, depth) / (k * area * difference))
    return {"x": _series(places), "heat_flux": _series(noisy(-k * np.gradient(temperatures, places), _FINE))}


def _folded(angle: float) -> float:
    angle = angle % 180
    return 180 - angle if angle > 90 else angle


def _refraction(law: Law, given: Arguments, noisy: Noise) -> Any:
    indices = given.get("refractive_index_1", 1.1), given.get("refractive_index_2", 1.2)
    return noisy(law(*indices, _folded(given["incidence_angle"])), 1e-6)


def _speeds_of_light(law: Law, given: Arguments, noisy: Noise) -> dict[str, Any]:
    indices = 3e8 / given.get("speed_medium1", 3e8), 3e8 / given.get("speed_medium2", 2e8)
    angle = float(law(*indices, _folded(given["incidence_angle"])))
    return {"refraction_angle": _text(noisy(angle, 1e-6)) if math.isfinite(angle) else "invalid"}


def _three_layers(law: Law, given: Arguments, noisy: Noise) -> dict[str, Any]:
    first = given.get("refractive_index_1", 1.0)
    second, third = given.get("refractive_index_2", 1.5), given.get("refractive_index_3", 1.33)
    angle = float(law(first, second, _folded(given["incidence_angle"])))
    if math.isfinite(angle):
        angle = float(law(second, third, angle))
    return {"final_refraction_angle": _text(noisy(angle, 1e-6)) if math.isfinite(angle) else "invalid"}


def _activity(law: Law, given: Arguments, noisy: Noise) -> dict[str, Any]:
    times = np.linspace(0, given["t"], _points(given))
    atoms = np.array([0.7 * float(law(given.get("N0", 1.0), given.get("lambda_constant", 1.0), t)) for t in times])
    return {"time": _series(times), "measured_activity": _series(noisy(atoms, _FINE))}


def _ratio(law: Law, given: Arguments, noisy: Noise) -> dict[str, Any]:
    times = np.linspace(0, given["t"], _points(given))
    ratios = []
    for time in times:
        one = float(law(given.get("N0a", 1.0), given.get("lambda_a", 1.0), time))
        other = float(law(given.get("N0b", 1.0), given.get("lambda_b", 1.0), time))
        ratio = math.nan if abs(other) < 1e-10 else one / other
        ratios.append(ratio if math.isfinite(ratio) else math.nan)
    return {"time": _series(times), "ratio": _series(noisy(np.array(ratios), _FINER))}


def _intensity_ratio(law: Law, given: Arguments, noisy: Noise) -> Any:
    light, theta = given["I_0"], given["theta"]
    if light <= 0 or theta <= 0 or theta > np.pi / 2:
        return math.nan
    return noisy(law(light, theta) / light, _FINER)


def _two_polarisers(law: Law, given: Arguments, noisy: Noise) -> Any:
    light, theta = given["I_0"], given["theta"]
    if light <= 0 or theta <= 0 or theta > np.pi / 2:
        return math.nan
    return noisy(law(law(light, theta), theta) - light, _FINE)


# -- oscillators, sound, photons, calorimeters -------------------------------------------------------------------------


def _frequency(law: Law, given: Arguments) -> float:
    return law(given["k_constant"], given["mass"], given["b_constant"])  # type: ignore[no-any-return]


def _period(law: Law, given: Arguments, noisy: Noise) -> dict[str, Any]:
    omega = _frequency(law, given)
    return {"period": _text(noisy(2 * np.pi / omega, _FINE)) if np.isfinite(omega) and omega else "invalid"}


def _swing(law: Law, given: Arguments, noisy: Noise) -> dict[str, Any]:
    omega = _frequency(law, given)
    if not np.isfinite(omega) or omega == 0:
        return {"time": [], "amplitude": []}
    times = np.linspace(0, 2 * (2 * np.pi / omega), _SHOWN)
    amplitudes = given.get("initial_amplitude", 1.0) * np.exp(-3 * times) * np.cos(omega * times)
    return {"time": _series(times), "amplitude": _series(noisy(amplitudes, _FINE))}


def _sound(law: Law, given: Arguments) -> float:
    return law(given["adiabatic_index"], given["temperature"], given["molar_mass"])  # type: ignore[no-any-return]


def _echo(law: Law, given: Arguments, noisy: Noise) -> dict[str, Any]:
    speed = _sound(law, given)
    if not np.isfinite(speed) or speed <= 0:
        return {"time": "invalid"}
    return {"time": _text(noisy(2 * given.get("distance", 100.0) / speed, _FINE))}


def _resonance(law: Law, given: Arguments, noisy: Noise) -> dict[str, Any]:
    speed, frequency = _sound(law, given), given.get("driving_frequency", 440.0)
    names = "first_resonance_length", "second_resonance_length"
    if not np.isfinite(speed) or speed <= 0:
        return dict.fromkeys(names, "invalid")
    if frequency <= 0:
        return dict.fromkeys(names, "nan")
    wave, correction = speed / frequency, 0.3 * given.get("tube_diameter", 0.1)
    lengths = max(wave / 4 - correction, 0), max(3 * wave / 4 - correction, 0)
    return {name: _text(noisy(length, _FINE)) for name, length in zip(names, lengths, strict=True)}


def _air_spring(law: Law, given: Arguments, noisy: Noise) -> Any:
    mass = given.get("m", 1.0)
    if mass <= 0:
        return math.nan
    speed = np.sqrt(2 * law(given["x"]) / mass)
    return noisy(0.5 * mass * speed**2 + 0.2 * given["x"] * speed**2, _FINE)


def _lossy_spring(law: Law, given: Arguments, noisy: Noise) -> Any:
    speed = np.sqrt(2 * law(given["x"]) / given.get("m", 1.0))
    return noisy(np.exp(-given["x"] / 0.02) * speed, _FINE)


def _radiance(law: Law, given: Arguments, noisy: Noise) -> dict[str, Any]:
    probe = given.get("probe_frequency", 1e8)
    value = law(probe, given["temperature"]) * probe**3
    return {"spectral_radiance": _text(noisy(value, _FINER), ".12e")}


def _band_power(law: Law, given: Arguments, noisy: Noise) -> dict[str, Any]:
    try:
        from scipy.integrate import quad
    except ImportError:
        raise DependencyNotInstalled("The power in a band needs scipy: pip install scipy") from None

    centre, half = given.get("center_frequency", 1e9), given.get("bandwidth", 10.0) / 2

    def radiance(omega: float) -> float:
        return law(omega, given["temperature"]) * omega**3  # type: ignore[no-any-return]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        power, _ = quad(radiance, centre - half, centre + half, limit=100)
    return {"total_power": _text(noisy(power, _FINER))}


def _shares(law: Law, given: Arguments, noisy: Noise) -> dict[str, Any]:
    """The powers that leave by conduction, convection and radiation, in random shares and after a random loss."""
    mass, heat = given["m"], given["c"]
    power = law(mass, heat, given["delta_T"]) / (mass * heat / 100.0)
    power = power * (1 - noisy.rng.uniform(0.18, 0.22))  # type: ignore[attr-defined]
    parts = noisy.rng.uniform(0.1, 0.8, 3)  # type: ignore[attr-defined]
    shares = parts / (parts[0] + parts[1] + parts[2])
    return {
        name: noisy(share * power, _FINE) for name, share in zip(("P_cond", "P_conv", "P_rad"), shares, strict=True)
    }


def _light_bulbs(law: Law, given: Arguments, noisy: Noise) -> int:
    """How many bulbs of 1 W the difference to a body of another constant lights."""
    mass, heat, difference = given["m"], given["c"], given["delta_T"]
    other = law(mass, heat * noisy.rng.uniform(0.7, 1.2), difference)  # type: ignore[attr-defined]
    power = abs(law(mass, heat, difference) - other) / (mass * heat / 100.0)
    power = power * (1 - noisy.rng.uniform(0.18, 0.22))  # type: ignore[attr-defined]
    return 0 if math.isnan(power) else int(noisy(power, _FINE))


def _direct(floor: float, *names: str, magnitudes: bool = False, **defaults: float) -> Any:
    """The law itself, measured."""

    def measure(law: Law, given: Arguments, noisy: Noise) -> Any:
        values = [given.get(name, defaults.get(name)) for name in names]
        return noisy(law(*(map(abs, values) if magnitudes else values)), floor)  # type: ignore[arg-type]

    return measure


EXPERIMENTS: dict[str, dict[str, Callable[[Law, Arguments, Noise], Any]]] = {
    module: dict(zip(("vanilla_equation", "simple_system", "complex_system"), measures, strict=True))
    for module, measures in {
        "m0_gravity": (_direct(_FINER, "mass1", "mass2", "distance"), _fall, _orbit),
        "m1_coulomb_force": (_direct(_FINER, "q1", "q2", "distance"), _charge_speed, _charge_energy),
        "m2_magnetic_force": (
            _direct(_FINER, "current1", "current2", "distance", magnitudes=True),
            _free_wire,
            _alternating_wire,
        ),
        "m3_fourier_law": (_direct(_FINE, "k", "A", "delta_T", "d"), _temperatures, _heat_flux),
        "m4_snell_law": (_refraction, _speeds_of_light, _three_layers),
        "m5_radioactive_decay": (
            _direct(_FINE, "N0", "lambda_constant", "t", N0=1.0, lambda_constant=1.0),
            _activity,
            _ratio,
        ),
        "m6_underdamped_harmonic": (_direct(_FINE, "k_constant", "mass", "b_constant"), _period, _swing),
        "m7_malus_law": (_direct(_FINE, "I_0", "theta"), _intensity_ratio, _two_polarisers),
        "m8_sound_speed": (_direct(_FINE, "adiabatic_index", "temperature", "molar_mass"), _echo, _resonance),
        "m9_hooke_law": (_direct(_FINE, "x"), _air_spring, _lossy_spring),
        "m10_be_distribution": (_direct(1e-18, "omega", "temperature", omega=1e8), _radiance, _band_power),
        "m11_heat_transfer": (_direct(_FINE, "m", "c", "delta_T"), _shares, _light_bulbs),
    }.items()
}
"""What each domain's apparatus measures, by system."""


class Noisy:
    """Gaussian noise, relative to the value and not below the instrument's floor.

    Args:
        level: The standard deviation relative to the value; with 0 values are exact.
        rng: Draws it, and the random shares of an apparatus.
    """

    def __init__(self, level: float, rng: np.random.Generator) -> None:
        self.level, self.rng = level, rng

    def __call__(self, value: Any, floor: float) -> Any:
        """Return a value, or an array of them, with noise."""
        if self.level == 0.0:
            return value
        spread = np.maximum(np.abs(value * self.level), floor)
        return value + self.rng.normal(0.0, 1.0, np.shape(value)) * spread
