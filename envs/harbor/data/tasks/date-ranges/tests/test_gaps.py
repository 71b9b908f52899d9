import unittest
from datetime import date, timedelta

import ranges
from ranges import days, gaps, merge


def day(number):
    return date(2025, 1, 1) + timedelta(days=number)


def span(first, last):
    return day(first), day(last)


class Gaps(unittest.TestCase):
    def test_a_range_within_another_is_forgotten(self):
        self.assertEqual(merge([span(0, 9), span(2, 3)]), [span(0, 9)])
        self.assertEqual(days([span(0, 9), span(2, 3)]), 10)

    def test_ranges_come_in_any_order_and_are_left_alone(self):
        given = [span(20, 21), span(0, 1)]
        self.assertEqual(merge(given), [span(0, 1), span(20, 21)])
        self.assertEqual(given, [span(20, 21), span(0, 1)])

    def test_gaps_lie_between(self):
        self.assertEqual(gaps([span(10, 12), span(0, 3), span(1, 2), span(4, 5)]), [span(6, 9)])
        self.assertEqual(gaps([]), [])
        self.assertEqual(gaps([span(0, 1), span(2, 3)]), [])
        self.assertEqual(gaps([span(5, 5), span(3, 3), span(1, 1)]), [span(2, 2), span(4, 4)])

    def test_a_range_that_ends_before_it_begins_is_refused(self):
        for function in (merge, gaps, ranges.days):
            with self.assertRaises(ValueError):
                function([span(3, 1)])


if __name__ == "__main__":
    unittest.main()
