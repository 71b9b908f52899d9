"""Pictures that other programs can read, with the circles where they are said to be."""

import base64
import io

import numpy as np
import pytest

from gym_llm.protocols.chat.requests import request_to_chat
from gym_llm.utils.png import COLORS, Circle, asking, data_url, draw_circles, shuffled_colors


def test_a_png_shows_its_circles():
    image = pytest.importorskip("PIL.Image")
    circles = [Circle(30, 40, 10, "red"), Circle(95, 5, 10, "blue")]
    url = data_url(circles, 100)
    picture = image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGB")
    assert picture.size == (100, 100)
    for x, y, color in [(30, 40, "red"), (30, 31, "red"), (37, 47, "red"), (95, 5, "blue"), (99, 0, "blue")]:
        assert picture.getpixel((x, y)) == COLORS[color]
    for x, y in [(30, 29), (38, 48), (0, 0)]:
        assert picture.getpixel((x, y)) == (255, 255, 255)


def test_circles_lie_in_the_picture_and_do_not_touch():
    for seed in range(100):
        circles = draw_circles(np.random.default_rng(seed), 400, 8, list(COLORS), distinct=True)
        assert len(circles) >= 3 and [circle.color for circle in circles] == list(COLORS)[: len(circles)]
        for number, circle in enumerate(circles):
            assert circle.radius <= circle.x < 400 - circle.radius and circle.radius <= circle.y < 400 - circle.radius
            for other in circles[:number]:
                distance = np.hypot(circle.x - other.x, circle.y - other.y)
                assert distance > circle.radius + other.radius
    assert sorted(shuffled_colors(np.random.default_rng(0))) == sorted(COLORS)


def test_a_picture_goes_to_a_chat_server_as_it_is():
    request = asking("How many?", [Circle(30, 40, 10, "red")], 100)
    image = request["input"][0]["content"][0]
    (message,) = request_to_chat(request)["messages"]
    assert message["content"] == [
        {"type": "image_url", "image_url": {"url": image["image_url"], "detail": "auto"}},
        {"type": "text", "text": "How many?"},
    ]
