"""A session's cookie is signed, and is one server's."""

from __future__ import annotations

import pytest

from gym_llm.serve.nemo.nemo_sessions import SessionCookie

SECRET = b"x" * 32
COOKIE = SessionCookie("Weather", "Weather-v0", SECRET)


def test_the_name_is_nemo_gyms():
    assert COOKIE.name == "Weather___Weather-v0"
    assert SessionCookie("Weather", "my weather;v0", SECRET).name == "Weather___my_weather_v0"


def test_what_was_written_is_read_again_among_others():
    pair = COOKIE.written("abc-DEF_1").partition(";")[0]
    assert COOKIE.read(pair) == "abc-DEF_1"
    assert COOKIE.read(f"a=b; {pair}; c=d") == "abc-DEF_1"
    name, _, value = pair.partition("=")
    assert COOKIE.read(f'{name}="{value}"') == "abc-DEF_1"


def test_workers_of_one_secret_read_each_others():
    pair = COOKIE.written("w1g0-abc").partition(";")[0]
    assert SessionCookie("Weather", "Weather-v0", SECRET).read(pair) == "w1g0-abc"


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Weather___Weather-v0=",
        "Weather___Weather-v0=abc",
        "Weather___Weather-v0=abc.",
        "Weather___Weather-v0=abc.AAAAAAAAAAAAAAAAAAAAAAAA",
        "Weather___Weather-v0=abc.ü\udce4",
        SessionCookie("Weather", "Weather-v0", b"y" * 32).written("abc").partition(";")[0],
        SessionCookie("Counter", "Counter-v0", SECRET).written("abc").partition(";")[0],
        SessionCookie("Counter", "Counter-v0", SECRET).written("abc").partition(";")[0].replace("Counter", "Weather"),
        COOKIE.written("abc").partition(";")[0].replace("abc", "abd"),
    ],
)
def test_a_forged_cookie_opens_nothing(header):
    assert COOKIE.read(header) is None
