"""Numbers with units, percent, currencies and separators."""

from fractions import Fraction

import pytest
from testing import cpu_seconds

from gym_llm.grading.quantities import plain_symbols, read_quantity, read_unit


@pytest.mark.parametrize(
    ("texts", "value", "unit"),
    [
        (["42", " 42 ", "42.", "+42", "042", "42.0", "$42$", r"\(42\)", r"\[42\]", "**42**", "__42__", "`42`"], 42, ""),
        ([r"\text{42}", r"\mathbf{42}", r"\textbf{(42)}", "{42}", '"42"', r"\left(42\right)"], 42, ""),
        (["٤٢", "४२", "４２"], 42, ""),
        (["-73", "−73", "–73", "- 73", r"-\!73", "－73"], -73, ""),
        (["1234567", "1,234,567", r"1\,234\,567", r"1\ 234\ 567", "1 234 567", "1{,}234{,}567"], 1234567, ""),
        (["1'234'567", "1’234’567", "1.234.567", "1\u202f234\u202f567", "1,\\!234,\\!567"], 1234567, ""),
        (["0.5", ".5", "1/2", r"\frac{1}{2}", r"\frac12", r"\dfrac{1}{2}", "½", "5e-1", r"5\times10^{-1}"], 0.5, ""),
        (["2.625", r"2\frac{5}{8}", "2 5/8", "21/8", "2⅝"], 2.625, ""),
        (["25000", r"25\times 10^3", r"2.5\cdot 10^{4}", "2.5 × 10^4", "2.5E4"], 25000, ""),
        (["20%", r"20\%", "20 percent", r"20\text{ percent}", "20 %", "20％", "20 pct", r"\(20\%\)"], 20, "%"),
        (["$5", r"\$5", r"\$5.00", "5 dollars", "US$5", r"5\text{ dollars}", "USD 5", "5 USD"], 5, "$"),
        (["$25,000/year", r"\$25{,}000/\text{year}", "$25,000 per year"], 25000, "$/yr"),
        (["120 ml", "120 ml of milk", "120ml", r"120\,\mathrm{ml}", r"120 \text{ mL}", "120 milliliters."], 120, "ml"),
        (["45°", r"45^\circ", r"45^{\circ}", "45 degrees", r"45\degree", r"45 ^\circ"], 45, "deg"),
        (["5 cm^2", r"5\text{ cm}^2", r"5\ \text{cm}^{2}", "5 cm²", r"5\,\mathrm{cm^2}"], 5, "cm2"),
        (["10 miles per hour", "10 mph", "10 mi/h", r"10\text{ miles/hour}"], 10, "mi/h"),
        (["4210_5", "4210_{5}"], 4210, "base 5"),
        (["15.\\overline{3}", "15.\\dot{3}", "46/3"], Fraction(46, 3), ""),
        (["7,300 bottles"], 7300, "bottles"),
        (["7 times", r"7\text{ times}"], 7, "times"),
        (["45°C", r"45^\circ\text{C}", "45 degrees Celsius", "45 ° C"], 45, "°C"),
        (["3×10⁸ m/s", r"3\times10^8\text{ m/s}"], 3 * 10**8, "m/s"),
        (["7th", r"7^{\text{th}}", "Answer: 7", "The final answer is 7"], 7, ""),
        (["42個", "42개"], 42, None),
        (["5 км"], 5, "км"),
        (["five", r"\text{Five}"], 5, ""),
        (["forty-two", "forty two"], 42, ""),
        ([r"0.333\ldots", "0.333...", "0.3333…"], Fraction(1, 3), ""),
        (["0.1666..."], Fraction(1, 6), ""),
        ([r"\Large{5}", r"\tag{1} 5"], 5, ""),
        ([r"\text{US}\$5", "US $5"], 5, "$"),
        ([r"\pounds 5", "5 pounds"], 5, "£"),
        (["$5 a year", "$5 each year"], 5, "$/yr"),
        (["20℃", "20 °C"], 20, "°C"),
        (["5 sq ft", "5 square feet", "5 ft²"], 5, "ft2"),
        (["5 cc", "5 cm³", "5 cubic centimeters"], 5, "cm3"),
        ([r"5\,\mathrm{m\,s^{-2}}", "5 m s^{-2}", "5 m s⁻²", "5 m/s^2", "5 meters per second^2"], 5, "m/s2"),
        ([r"5\,\mathrm{N\cdot m}", "5 N·m"], 5, "N m"),
        ([r"5\,\mu\text{m}", "5 μm", "5 micrometers"], 5, "μm"),
        ([r"5\,\Omega", "5 ohms"], 5, "Ω"),
        (["5 fl oz", "5 fluid ounces"], 5, "fl oz"),
        (["42 apples", "≈42 apples", "about 42 apples"], 42, "apples"),
    ],
)  # fmt: skip
def test_the_same_quantity_in_many_forms(texts: list[str], value: float | Fraction, unit: str | None) -> None:
    for text in texts:
        quantity = read_quantity(text)
        assert quantity is not None, text
        assert (quantity.value, quantity.unit) == (value, unit if unit is not None else quantity.unit), text


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "?", "abc", "fivefold", "twenty-zero", "x", "5x", "4i", "2pi", "5m", "5k", "4π", "NaN", "inf"),
        *("0.5...", "5 · x", "1e999", "--5", "5-", "1/0", "1,23"),
        *("4 π", "2θ", "3ⁿ", "5 xyz"),
        *("3.5.0", "1,000,00", "1 2", "12 and 13", "12, 13", "14,7,18", "7 if n is odd", "10 or 12", "2+3=5", "3:2"),
        *("12 positive and 12 negative integers", "10:30", "8/12/2020", "12 cm x 3 cm", "not 5", "5 is wrong", "{5"),
        *(r"\frac{\mathrm{e}}{2}", r"\sqrt{2}", r"\boxed{5}", r"5\foo", "3 more than x", "5 plus", "9" * 500),
    ],
)  # fmt: skip
def test_what_is_not_one_whole_quantity_is_none(text: str) -> None:
    assert read_quantity(text) is None


@pytest.mark.parametrize(
    ("expected", "right", "wrong"),
    [
        ("20", ["20%", "20 percent", "20.0", "20 apples", "$20"], ["0.2", "21%", "20.0001", "-20", "2"]),
        ("0.2", ["20%", "1/5", ".20"], ["2%", "20", "0.21", "0.2001"]),
        ("20%", ["20", "0.2", "20%", "1/5"], ["2000%", "2", "0.02"]),
        ("70", ["7.0e1", "70 km"], ["7", "0.07", "700"]),
        ("84", ["7 dozen", "84 eggs"], ["12 dozen"]),
        ("7000000", ["7 million", "7,000,000"], ["7 thousand", "7 billion"]),
        ("7", ["7 dozens", "7 million"], ["84"]),
        ("5 kPa", ["5", "5 kilopascals"], ["5 MPa", "5 Pa", "5 kJ"]),
        ("5 square meters", ["5 m^2"], ["5 cubic meters", "5 meters", "5 square feet"]),
        ("2 m/s", ["2", "2.0 m/s", "2 meters per second"], ["2 km/h", "2 m", "2 s", "2 mph", "2 dollars"]),
        ("5 am", ["5", "5am", "5 a.m."], ["5 pm", "17"]),
        ("12 students", ["12", "12 people", "12 pupils"], ["13 students"]),
        ("4210_5", ["4210", "4210_{5}"], ["4210_6", "555"]),
        ("6.63e-34", ["6.63\\times 10^{-34}", "6.630e-34"], ["1.6e-19", "0", "6.63e-33", "6.64e-34"]),
        ("0.00000012", ["1.2e-7"], ["0.00000034", "0"]),
        ("0.000001", ["1e-6"], ["0.0000014", "0", "1e-40"]),
        ("3.14159265", ["3.141592653"], ["3.14159299", "3.1416", "3.14"]),
        ("12345.67", ["12345.67"], ["12345.68", "12346"]),
        ("3.33333", ["10/3", "3.333333"], ["3.33", "3.3334", "3.3"]),
        ("1/3", ["0.333333", "0.33333333", "33.3333%"], ["0.33", "0.3", "0.334", "0"]),
        ("3/56", ["0.0535714285714164"], ["0.0535", "0.05"]),
        ("2", ["1.9999999999999998", "2.0"], ["1.99", "1.9999", "2.0001"]),
        ("0", ["0.0", "-0", "0%"], ["1e-40", "0.0000001", "1e-300"]),
        ("12345678901234567890", ["12345678901234567890"], ["12345678901234567891", "1.2345678901e19"]),
    ],
)
def test_answers_are_as_precise_as_is_expected(expected: str, right: list[str], wrong: list[str]) -> None:
    gold = read_quantity(expected)
    assert gold is not None
    for texts, is_right in ((right, True), (wrong, False)):
        for text in texts:
            quantity = read_quantity(text)
            assert quantity is not None, text
            assert quantity.answers(gold) is is_right, text


def test_symbols_of_other_scripts_become_plain() -> None:
    assert plain_symbols("−７３ ¾ ১২") == r"-73 \frac{3}{4} 12"
    assert read_unit("m/s") == ("m/s", 1)
    assert read_unit("if and only if") is None


@pytest.mark.parametrize("text", ["1," * 100_000, "1 " * 200, "5 a" * 130, "$" * 399, "\\text{" * 60, "(" * 390 + "5"])
def test_hostile_text_takes_linear_time(text: str) -> None:
    assert cpu_seconds(read_quantity, text) < 0.5
